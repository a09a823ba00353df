// Share of the attention mass of a block, from one row of log-masses (or two, with more than eight heads) and the
// totals. Four cycles, never stalls.
`default_nettype none

module nkv_priority
  import nearkv_pkg::*;
(
    input  wire logic                      clk,
    input  wire logic                      rst_n,
    input  wire logic [4:0]                group,
    input  wire logic [31:0]               totals[MAX_GROUP],
    input  wire logic                      row_valid,
    input  wire logic                      row_exists,  // the position lies in the request
    input  wire logic                      row_half,
    input  wire logic [POSITION_BITS-1:0]  row_position,
    input  wire logic [HEADS*32-1:0]       row,
    output logic                           out_valid,
    output candidate_t                     out
);
  localparam int unsigned SHARE_BITS = 25;  // at most 2^24
  localparam int unsigned SUM_BITS = SHARE_BITS + 3;
  wire logic two_halves = group > 5'(HEADS);

  logic [3:1] valid, half;
  logic [POSITION_BITS-1:0] position1, position2, position3;
  logic [3:1] exists;
  logic [7:0] fraction[HEADS];
  logic [4:0] shift[HEADS];
  logic [HEADS-1:0] counts;  // the head exists and the block has mass for it
  logic [SHARE_BITS-1:0] share[HEADS];
  logic [SUM_BITS-1:0] sum;
  logic [PRIORITY_BITS-1:0] first_half;

  always_ff @(posedge clk) begin
    // 1: y = min(L - T, 0)
    if (row_valid) begin
      for (int h = 0; h < HEADS; h++) begin
        logic [31:0] mass;
        logic signed [32:0] y;
        mass = row[h*32+:32];
        y = 33'(signed'(mass)) - 33'(signed'(totals[{row_half, 3'(h)}]));
        if (y > 0) y = '0;
        fraction[h] <= y[7:0];
        shift[h] <= (y < -33'sd7936) ? 5'd31 : 5'(-(y >>> 8));
        counts[h] <= {1'b0, row_half, 3'(h)} < group && mass != EMPTY;
      end
    end
    // 2: (256 + fraction) * 2^16 >> -(y >> 8)
    if (valid[1]) begin
      for (int h = 0; h < HEADS; h++)
        share[h] <= counts[h] ? {1'b1, fraction[h], 16'd0} >> shift[h] : '0;
    end
    // 3: over the heads
    if (valid[2]) begin
      sum <= ((SUM_BITS'(share[0]) + SUM_BITS'(share[1])) + (SUM_BITS'(share[2]) + SUM_BITS'(share[3])))
             + ((SUM_BITS'(share[4]) + SUM_BITS'(share[5])) + (SUM_BITS'(share[6]) + SUM_BITS'(share[7])));
    end
    // 4: over the halves
    if (valid[3]) begin
      if (!half[3]) first_half <= PRIORITY_BITS'(sum);
      out.share <= PRIORITY_BITS'(sum) + (half[3] ? first_half : '0);
      out.position <= position3;
      out.exists <= exists[3];
    end
    position1 <= row_position;
    position2 <= position1;
    position3 <= position2;
    exists <= {exists[2:1], row_exists && row[31:0] != EMPTY};
    half <= {half[2:1], row_half};
    if (!rst_n) begin
      valid <= '0;
      out_valid <= 1'b0;
    end else begin
      valid <= {valid[2:1], row_valid};
      out_valid <= valid[3] && half[3] == two_halves;
    end
  end
endmodule

`default_nettype wire
