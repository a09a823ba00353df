// Spreads 64 query values over the byte lanes the way key rows lie in a beat: rows shorter than a beat repeat, and in
// INT4 a byte lane holds two neighbouring values, so its even and its odd query value differ.
`default_nettype none

module nkv_query_layout
  import nearkv_pkg::*;
(
    input  wire logic                    int4,
    input  wire logic [1:0]              width,  // log2(D / 32)
    input  wire logic [1:0]              part,   // which 64 values of the row
    input  wire logic [BEAT_BITS-1:0]    beat,
    output logic [LANES-1:0][7:0]        even,
    output logic [LANES-1:0][7:0]        odd,
    output logic [1:0]                   lane_halves,  // which halves of the lanes are written
    output logic [1:0]                   chunk         // which beat of a key row they belong to
);
  always_comb begin
    for (int lane = 0; lane < LANES; lane++) begin
      if (int4) begin
        even[lane] = (width == 0) ? beat[(lane%16)*16+:8] : beat[(lane%32)*16+:8];
        odd[lane]  = (width == 0) ? beat[(lane%16)*16+8+:8] : beat[(lane%32)*16+8+:8];
      end else begin
        even[lane] = (width == 0) ? beat[(lane%32)*8+:8] : beat[lane*8+:8];
        odd[lane]  = 8'd0;
      end
    end
    if (int4 && width >= 2'd2) begin
      lane_halves = part[0] ? 2'b10 : 2'b01;
      chunk = {1'b0, part[1]};
    end else begin
      lane_halves = 2'b11;
      chunk = part;
    end
  end
endmodule

`default_nettype wire
