// Mode MASS: collects the log-masses of 16 blocks and gives them out head by head, one beat per head, while the next
// tile fills. `last` closes a tile early; its missing positions are zero.
`default_nettype none

module nkv_tiles
  import nearkv_pkg::*;
(
    input  wire logic                    clk,
    input  wire logic                    rst_n,
    input  wire logic [4:0]              group,
    input  wire logic                    in_valid,
    output logic                         in_ready,
    input  wire logic [31:0]             in_value,
    input  wire logic [HEAD_BITS-1:0]    in_head,
    input  wire logic                    in_last_in_block,
    input  wire logic                    in_last,  // of the request
    output logic                         out_valid,  // a burst of `group` beats
    input  wire logic                    out_ready,
    output logic [BEAT_BITS-1:0]         out_data,
    output logic                         out_last
);
  localparam int unsigned TILE = 16;
  logic fill_side, drain_side;
  logic [1:0] full;  // per side
  logic [3:0] block, blocks[2];  // blocks - 1 that a full side holds
  logic [HEAD_BITS-1:0] head;

  assign in_ready = !full[fill_side];
  wire logic take = in_valid && in_ready;
  wire logic close = take && in_last_in_block && (in_last || block == 4'(TILE - 1));
  assign out_valid = full[drain_side];
  assign out_last = head == HEAD_BITS'(group - 5'd1);
  wire logic release_side = out_valid && out_ready && out_last;

  wire logic [TILE-1:0] present = {TILE{1'b1}} >> (4'(TILE - 1) - blocks[drain_side]);

  for (genvar lane = 0; lane < TILE; lane++) begin : g_lane
    (* ram_style = "distributed" *) logic [31:0] memory[2*MAX_GROUP];
    always_ff @(posedge clk) if (take && block == 4'(lane)) memory[{fill_side, in_head}] <= in_value;
    assign out_data[lane*32+:32] = present[lane] ? memory[{drain_side, head}] : '0;
  end

  always_ff @(posedge clk) begin
    if (close) blocks[fill_side] <= block;
    if (!rst_n) begin
      fill_side <= 1'b0;
      drain_side <= 1'b0;
      full <= '0;
      block <= '0;
      head <= '0;
    end else begin
      if (close) begin
        full[fill_side] <= 1'b1;
        fill_side <= !fill_side;
        block <= '0;
      end else if (take && in_last_in_block) block <= block + 1'b1;
      if (release_side) begin
        full[drain_side] <= 1'b0;
        drain_side <= !drain_side;
      end
      if (out_valid && out_ready) head <= out_last ? '0 : head + 1'b1;
    end
  end
endmodule

`default_nettype wire
