// Merges neighbouring runs of 2^LEVEL candidates into runs of twice the length, one tuple a cycle. Candidate j of the
// first run meets candidate WAYS-1-j of the second one: the lane of each such pair merges its own share of both runs by
// itself, and what the lanes give together are the next WAYS candidates, in bitonic order (Papaphilippou, Brooks and Luk,
// "FLiMS: Fast Lightweight Merge Sorter", FPT 2018). Ties keep their order.
`default_nettype none

module nkv_merge_tuples
  import nearkv_pkg::*;
#(
    parameter int unsigned LEVEL = WAY_BITS
) (
    input  wire logic    clk,
    input  wire logic    rst_n,
    input  wire logic    in_valid,
    output logic         in_ready,
    input  wire tuple_t  in,
    output logic         out_valid,
    input  wire logic    out_ready,
    output tuple_t       out
);
  localparam int unsigned LANE_LEVEL = LEVEL - WAY_BITS;
  if (LEVEL < WAY_BITS) begin : g_check
    $error("nkv_merge_tuples: a run must fill whole tuples");
  end

  logic [LANE_LEVEL:0] entered;  // the top bit chooses the run
  wire logic second = entered[LANE_LEVEL];
  logic [WAYS-1:0] lane_in_ready, lane_out_valid;
  logic sort_ready, unused_empty, unused_info;
  tuple_t merged;
  assign in_ready = &lane_in_ready;
  wire logic enter = in_valid && in_ready;
  wire logic merged_valid = &lane_out_valid;
  wire logic leave = merged_valid && sort_ready;

  for (genvar i = 0; i < WAYS; i++) begin : g_lane
    candidate_t lane_in, lane_out;
    always_comb lane_in = second ? in[WAYS-1-i] : in[i];
    nkv_merge_stage #(
        .LEVEL(LANE_LEVEL)
    ) stage (
        .clk,
        .rst_n,
        .in_valid(enter),
        .in_ready(lane_in_ready[i]),
        .in(lane_in),
        .out_valid(lane_out_valid[i]),
        .out_ready(leave),
        .out(lane_out)
    );
    always_comb merged[i] = lane_out;
  end

  always_ff @(posedge clk) begin
    if (!rst_n) entered <= '0;
    else if (enter) entered <= entered + 1'b1;
  end

  nkv_sort_tuple #(
      .BITONIC(1'b1)
  ) order (
      .clk,
      .rst_n,
      .empty(unused_empty),
      .in_valid(merged_valid),
      .in_ready(sort_ready),
      .in(merged),
      .in_info(1'b0),
      .out_valid,
      .out_ready,
      .out,
      .out_info(unused_info)
  );
  wire logic unused = &{1'b0, unused_empty, unused_info};
endmodule

`default_nettype wire
