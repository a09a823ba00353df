// Merges neighbouring runs of 2^LEVEL candidates, highest first, into runs of twice the length: one candidate a cycle.
// Ties keep their order, so positions stay ascending among equals.
`default_nettype none

module nkv_merge_stage
  import nearkv_pkg::*;
#(
    parameter int unsigned LEVEL = 0
) (
    input  wire logic        clk,
    input  wire logic        rst_n,
    input  wire logic        in_valid,
    output logic             in_ready,
    input  wire candidate_t  in,
    output logic             out_valid,
    input  wire logic        out_ready,
    output candidate_t       out
);
  localparam int unsigned RUN = 1 << LEVEL;
  localparam int unsigned DEPTH = (2 * RUN < 4) ? 4 : 2 * RUN;
  localparam int unsigned WIDTH = $bits(candidate_t);

  logic [LEVEL:0] entered;  // the top bit chooses the run
  logic [LEVEL:0] taken_a, taken_b;  // of the current pair of runs
  logic a_ready, b_ready, a_valid, b_valid;
  candidate_t a, b;

  wire logic side = entered[LEVEL];
  assign in_ready = side ? b_ready : a_ready;
  wire logic a_over = taken_a[LEVEL];
  wire logic b_over = taken_b[LEVEL];
  wire logic a_wins = b_over || (!a_over && {a.exists, a.share} >= {b.exists, b.share});
  wire logic choose_a = a_valid && a_wins && (b_over || b_valid) && !a_over;
  wire logic choose_b = b_valid && !a_wins && (a_over || a_valid) && !b_over;
  wire logic step = !out_valid || out_ready;
  wire logic take_a = choose_a && step;
  wire logic take_b = choose_b && step;
  wire logic [LEVEL:0] next_a = taken_a + (LEVEL + 1)'(take_a);
  wire logic [LEVEL:0] next_b = taken_b + (LEVEL + 1)'(take_b);

  if (DEPTH <= 64) begin : g_small
    logic [$clog2(DEPTH+1)-1:0] count_a, count_b;
    nkv_fifo #(.WIDTH(WIDTH), .DEPTH(DEPTH)) run_a (
        .clk, .rst_n, .in_valid(in_valid && !side), .in_ready(a_ready), .in_data(in),
        .out_valid(a_valid), .out_ready(take_a), .out_data(a), .count(count_a)
    );
    nkv_fifo #(.WIDTH(WIDTH), .DEPTH(DEPTH)) run_b (
        .clk, .rst_n, .in_valid(in_valid && side), .in_ready(b_ready), .in_data(in),
        .out_valid(b_valid), .out_ready(take_b), .out_data(b), .count(count_b)
    );
    wire logic unused = &{1'b0, count_a, count_b};
  end else begin : g_large
    logic [$clog2(DEPTH+3)-1:0] count_a, count_b;
    nkv_ram_fifo #(.WIDTH(WIDTH), .DEPTH(DEPTH)) run_a (
        .clk, .rst_n, .in_valid(in_valid && !side), .in_ready(a_ready), .in_data(in),
        .out_valid(a_valid), .out_ready(take_a), .out_data(a), .count(count_a)
    );
    nkv_ram_fifo #(.WIDTH(WIDTH), .DEPTH(DEPTH)) run_b (
        .clk, .rst_n, .in_valid(in_valid && side), .in_ready(b_ready), .in_data(in),
        .out_valid(b_valid), .out_ready(take_b), .out_data(b), .count(count_b)
    );
    wire logic unused = &{1'b0, count_a, count_b};
  end

  always_ff @(posedge clk) begin
    if (step) out <= choose_a ? a : b;
    if (!rst_n) begin
      entered <= '0;
      taken_a <= '0;
      taken_b <= '0;
      out_valid <= 1'b0;
    end else begin
      if (in_valid && in_ready) entered <= entered + 1'b1;
      if (next_a[LEVEL] && next_b[LEVEL]) begin
        taken_a <= '0;
        taken_b <= '0;
      end else begin
        taken_a <= next_a;
        taken_b <= next_b;
      end
      if (step) out_valid <= choose_a || choose_b;
    end
  end
endmodule

`default_nettype wire
