// One beat of key values to signed operands for the lanes: INT8 fills the even operand; INT4 gives the low nibble to
// the even and the high nibble to the odd operand.
`default_nettype none

module nkv_unpack
  import nearkv_pkg::*;
(
    input  wire logic                  clk,
    input  wire logic                  enable,
    input  wire logic                  int4,
    input  wire logic [BEAT_BITS-1:0]  beat,
    output logic signed [7:0]          even[LANES],
    output logic signed [3:0]          odd [LANES]
);
  always_ff @(posedge clk) begin
    if (enable) begin
      for (int lane = 0; lane < LANES; lane++) begin
        even[lane] <= int4 ? 8'(signed'(beat[lane*8+:4])) : beat[lane*8+:8];
        odd[lane]  <= int4 ? beat[lane*8+4+:4] : 4'd0;
      end
    end
  end
endmodule

`default_nettype wire
