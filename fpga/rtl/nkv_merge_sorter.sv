// Sorts chunks of 2^level candidates, highest first, as they stream through a chain of merge stages; `level` chooses
// the stage whose output is used and is constant while candidates are inside.
`default_nettype none

module nkv_merge_sorter
  import nearkv_pkg::*;
#(
    parameter int unsigned LEVELS = SORT_LEVELS
) (
    input  wire logic        clk,
    input  wire logic        rst_n,
    input  wire logic [3:0]  level,  // 1..LEVELS
    input  wire logic        in_valid,
    output logic             in_ready,
    input  wire candidate_t  in,
    output logic             out_valid,
    input  wire logic        out_ready,
    output candidate_t       out
);
  if (LEVELS < 1 || LEVELS > 15) begin : g_check
    $error("nkv_merge_sorter: LEVELS must lie in 1..15");
  end
  logic [LEVELS:0] valid, ready;
  candidate_t link[LEVELS+1];

  assign valid[0] = in_valid;
  assign in_ready = ready[0];
  always_comb link[0] = in;
  assign out_valid = valid[level];
  always_comb out = link[level];

  for (genvar i = 0; i < LEVELS; i++) begin : g_stage
    logic stage_ready;
    nkv_merge_stage #(
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
endmodule

`default_nettype wire
