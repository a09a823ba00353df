// Products of four byte lanes with one pair of heads, and their sum, both registered. Sums stay packed: four INT8 or
// eight INT4 products of a head fit 18 bits, and Vivado can keep the additions in the DSP cascade.
`default_nettype none

module nkv_quad (
    input  wire logic              clk,
    input  wire logic [1:0]        enable,  // products, sum
    input  wire logic              int4,
    input  wire logic [31:0]       key_even,
    input  wire logic [15:0]       key_odd,
    input  wire logic [31:0]       even_high,
    input  wire logic [31:0]       even_low,
    input  wire logic [31:0]       odd_high,
    input  wire logic [31:0]       odd_low,
    output logic [35:0]            sum
);
  logic [35:0] even[4], odd[4];
  for (genvar i = 0; i < 4; i++) begin : g_lane
    nkv_mul_pair #(
        .KEY_BITS(8)
    ) multiply_even (
        .clk,
        .enable(enable[0]),
        .q_high(even_high[8*i+:8]),
        .q_low(even_low[8*i+:8]),
        .key(key_even[8*i+:8]),
        .product(even[i])
    );
    nkv_mul_pair #(
        .KEY_BITS(4)
    ) multiply_odd (
        .clk,
        .enable(enable[0] && int4),
        .q_high(odd_high[8*i+:8]),
        .q_low(odd_low[8*i+:8]),
        .key(key_odd[4*i+:4]),
        .product(odd[i])
    );
  end
  wire logic [35:0] even_sum = even[0] + even[1] + even[2] + even[3];
  wire logic [35:0] odd_sum = odd[0] + odd[1] + odd[2] + odd[3];
  always_ff @(posedge clk) begin
    if (enable[1]) sum <= int4 ? even_sum + odd_sum : even_sum;
  end
endmodule

`default_nettype wire
