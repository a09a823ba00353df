// Packs (position, priority) pairs eight to a beat; the last beat of `count` pairs is filled with zeros.
`default_nettype none

module nkv_pack_pairs
  import nearkv_pkg::*;
(
    input  wire logic                    clk,
    input  wire logic                    rst_n,
    input  wire logic                    start,
    input  wire logic [K_BITS-1:0]       count,
    input  wire logic                    in_valid,
    output logic                         in_ready,
    input  wire logic [31:0]             in_position,
    input  wire logic [31:0]             in_priority,
    output logic                         out_valid,
    input  wire logic                    out_ready,
    output logic [BEAT_BITS-1:0]         out_data
);
  logic [K_BITS-1:0] left;
  logic [2:0] slot;
  wire logic take = in_valid && in_ready;
  assign in_ready = !out_valid || out_ready;

  always_ff @(posedge clk) begin
    if (take) begin
      if (slot == 0) out_data <= BEAT_BITS'({in_priority, in_position});
      else out_data[slot*64+:64] <= {in_priority, in_position};
    end
    if (start) left <= count;
    else if (take) left <= left - 1'b1;
    if (!rst_n || start) begin
      slot <= '0;
      out_valid <= 1'b0;
    end else begin
      if (take) slot <= (left == K_BITS'(1)) ? '0 : slot + 1'b1;
      out_valid <= (take && (slot == 3'd7 || left == K_BITS'(1))) || (out_valid && !out_ready);
    end
  end
endmodule

`default_nettype wire
