// log2 of s * 2^(exponent - 20) with eight fraction bits and a linear fraction (Mitchell), clamped to the range of a
// log-mass; `empty` gives EMPTY. Two pipeline stages; `info` travels along.
`default_nettype none

module nkv_log2
  import nearkv_pkg::*;
#(
    parameter int unsigned WIDTH = 32,
    parameter int unsigned INFO_BITS = 1
) (
    input  wire logic                  clk,
    input  wire logic                  rst_n,
    input  wire logic                  in_valid,
    output logic                       in_ready,
    input  wire logic                  empty,
    input  wire logic signed [23:0]    exponent,
    input  wire logic [WIDTH-1:0]      s,
    input  wire logic [INFO_BITS-1:0]  in_info,
    output logic                       out_valid,
    input  wire logic                  out_ready,
    output logic [31:0]                value,
    output logic [INFO_BITS-1:0]       out_info
);
  localparam int unsigned NW = $clog2(WIDTH);
  if (WIDTH < 10) begin : g_check
    $error("nkv_log2: WIDTH must leave room for the fraction");
  end

  logic [NW-1:0] top;
  always_comb begin
    top = '0;
    for (int i = 0; i < WIDTH; i++) if (s[i]) top = NW'(i);
  end

  logic mid_valid, mid_empty;
  logic signed [23:0] mid_exponent;
  logic [NW-1:0] mid_top;
  logic [WIDTH-1:0] mid_s;
  logic [INFO_BITS-1:0] mid_info;

  wire logic step2 = !out_valid || out_ready;
  wire logic step1 = !mid_valid || step2;
  assign in_ready = step1;

  wire logic [WIDTH-1:0] normal = mid_s << (NW'(WIDTH - 1) - mid_top);
  wire logic signed [25:0] integer_part = 26'(mid_exponent) + 26'(signed'({1'b0, mid_top})) - 26'sd20;
  wire logic signed [33:0] whole = {integer_part, normal[WIDTH-2-:8]};
  logic [31:0] clamped;
  always_comb begin
    if (mid_empty) clamped = EMPTY;
    else if (whole > 34'sh0_7fff_ffff) clamped = 32'h7fff_ffff;
    else if (whole < -34'sh0_7fff_ffff) clamped = EMPTY + 1'b1;
    else clamped = whole[31:0];
  end

  always_ff @(posedge clk) begin
    if (step1) begin
      mid_empty <= empty;
      mid_exponent <= exponent;
      mid_top <= top;
      mid_s <= s;
      mid_info <= in_info;
    end
    if (step2) begin
      value <= clamped;
      out_info <= mid_info;
    end
    if (!rst_n) begin
      mid_valid <= 1'b0;
      out_valid <= 1'b0;
    end else begin
      if (step1) mid_valid <= in_valid;
      if (step2) out_valid <= mid_valid;
    end
  end
  wire logic unused = &{1'b0, normal[WIDTH-1], normal[WIDTH-10:0]};
endmodule

`default_nettype wire
