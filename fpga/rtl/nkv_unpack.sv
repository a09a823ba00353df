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
    output logic [LANES-1:0][7:0]      even,
    output logic [LANES-1:0][3:0]      odd
);
  always_ff @(posedge clk) begin
    if (enable) begin
      if (int4) begin
        for (int lane = 0; lane < LANES; lane++) begin
          even[lane] <= 8'(signed'(beat[lane*8+:4]));
          odd[lane] <= beat[lane*8+4+:4];
        end
      end else even <= beat;  // the odd products rest
    end
  end
endmodule

`default_nettype wire
