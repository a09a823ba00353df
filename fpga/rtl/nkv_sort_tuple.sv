// Sorts the four candidates of a tuple, highest first and the lower position first among equals: a network of
// comparators with a register after each level. `info` travels along.
`default_nettype none

module nkv_sort_tuple
  import nearkv_pkg::*;
#(
    parameter bit BITONIC = 1'b1,  // what comes in first falls, then rises (or is a rotation of that): two levels do
    parameter int unsigned INFO_BITS = 1
) (
    input  wire logic                  clk,
    input  wire logic                  rst_n,
    output logic                       empty,
    input  wire logic                  in_valid,
    output logic                       in_ready,
    input  wire tuple_t                in,
    input  wire logic [INFO_BITS-1:0]  in_info,
    output logic                       out_valid,
    input  wire logic                  out_ready,
    output tuple_t                     out,
    output logic [INFO_BITS-1:0]       out_info
);
  if (WAYS != 4) begin : g_check
    $error("nkv_sort_tuple: the network is one of four");
  end
  localparam int unsigned DEPTH = BITONIC ? 2 : 3;
  // Lane i of a level is compared with lane i ^ PARTNER: half-cleaners, or pairs, merged mirror-wise, and pairs again.
  localparam logic [2:0][1:0] PARTNER = BITONIC ? {2'd0, 2'd1, 2'd2} : {2'd1, 2'd3, 2'd1};

  function automatic logic first(input candidate_t a, input candidate_t b);
    return {a.exists, a.share, ~a.position} >= {b.exists, b.share, ~b.position};
  endfunction

  tuple_t level[DEPTH+1];
  logic [INFO_BITS-1:0] info[DEPTH+1];
  logic [DEPTH:1] valid, step;  // level i holds something, moves on
  wire logic [DEPTH-1:0] offered = {valid[DEPTH-1:1], in_valid};
  always_comb begin
    level[0] = in;
    info[0] = in_info;
  end
  assign step[DEPTH] = !valid[DEPTH] || out_ready;
  assign in_ready = step[1];
  assign out_valid = valid[DEPTH];
  assign empty = valid == 0;
  always_comb out = level[DEPTH];
  assign out_info = info[DEPTH];

  for (genvar d = 1; d <= DEPTH; d++) begin : g_level
    if (d != DEPTH) begin : g_step
      assign step[d] = !valid[d] || step[d+1];
    end
    for (genvar i = 0; i < WAYS; i++) begin : g_lane
      localparam int unsigned OTHER = i ^ 32'(PARTNER[d-1]);
      localparam int unsigned LOW = (i < OTHER) ? i : OTHER;
      localparam int unsigned HIGH = (i < OTHER) ? OTHER : i;
      wire logic ordered = first(level[d-1][LOW], level[d-1][HIGH]);
      always_ff @(posedge clk) if (step[d]) level[d][i] <= level[d-1][ordered ? i : OTHER];
    end
    always_ff @(posedge clk) begin
      if (step[d]) info[d] <= info[d-1];
      if (!rst_n) valid[d] <= 1'b0;
      else if (step[d]) valid[d] <= offered[d-1];
    end
  end
endmodule

`default_nettype wire
