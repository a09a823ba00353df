// Sorts chunks of 2^level candidates, highest first, as they stream tuple by tuple through a chain of merge stages;
// `level` chooses the stage whose output is used and is constant while candidates are inside.
`default_nettype none

module nkv_merge_sorter
  import nearkv_pkg::*;
#(
    parameter int unsigned LEVELS = SORT_LEVELS
) (
    input  wire logic        clk,
    input  wire logic        rst_n,
    input  wire logic [3:0]  level,  // WAY_BITS..LEVELS
    input  wire logic        in_valid,
    output logic             in_ready,
    input  wire tuple_t      in,
    output logic             out_valid,
    input  wire logic        out_ready,
    output tuple_t           out
);
  if (LEVELS < WAY_BITS || LEVELS > 15) begin : g_check
    $error("nkv_merge_sorter: LEVELS must lie in WAY_BITS..15");
  end
  logic [LEVELS:WAY_BITS] valid, ready;  // of chunks of 2^index
  tuple_t link[WAY_BITS:LEVELS];

  logic unused_empty, unused_info;
  nkv_sort_tuple #(
      .BITONIC(1'b0)
  ) tuples (
      .clk,
      .rst_n,
      .empty(unused_empty),
      .in_valid,
      .in_ready,
      .in,
      .in_info(1'b0),
      .out_valid(valid[WAY_BITS]),
      .out_ready(ready[WAY_BITS]),
      .out(link[WAY_BITS]),
      .out_info(unused_info)
  );
  assign out_valid = valid[level];
  always_comb out = link[level];

  for (genvar i = WAY_BITS; i < LEVELS; i++) begin : g_stage
    logic stage_ready;
    nkv_merge_tuples #(
        .LEVEL(i)
    ) stage (
        .clk,
        .rst_n,
        .in_valid(valid[i] && level > 4'(i)),
        .in_ready(stage_ready),
        .in(link[i]),
        .out_valid(valid[i+1]),
        .out_ready(ready[i+1]),
        .out(link[i+1])
    );
    assign ready[i] = (level == 4'(i)) ? out_ready : stage_ready;
  end
  assign ready[LEVELS] = out_ready;
  wire logic unused = &{1'b0, unused_empty, unused_info};
endmodule

`default_nettype wire
