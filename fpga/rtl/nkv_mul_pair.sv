// Two products that share an operand in one DSP48E2: (q_high * 2^18 + q_low) * k. The low product borrows from the high
// one when it is negative; the sum of several such products is put right once, where it is taken apart (nkv_mac).
`default_nettype none

module nkv_mul_pair #(
    parameter int unsigned KEY_BITS = 8
) (
    input  wire logic                       clk,
    input  wire logic                       enable,
    input  wire logic signed [7:0]          q_high,
    input  wire logic signed [7:0]          q_low,
    input  wire logic signed [KEY_BITS-1:0] key,
    output logic [35:0]                     product
);
  // 27-bit port A (or A + D in the pre-adder) times 18-bit port B; written in the widths of a processor, since what is
  // never more than a sign goes away in synthesis and costs a simulation nothing.
  wire logic signed [31:0] packed_q = (32'(q_high) <<< 18) + 32'(q_low);
  wire logic signed [63:0] wide = 64'(packed_q) * 64'(key);
  always_ff @(posedge clk) begin
    if (enable) product <= wide[35:0];
  end
  wire logic unused = &{1'b0, wide[63:36]};
endmodule

`default_nettype wire
