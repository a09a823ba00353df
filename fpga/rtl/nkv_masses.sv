// Hands each log-mass to everybody who needs it: the total, the bitmap of bad blocks, and the store (TOPK) or the tiles
// (MASS). Counts blocks, so it knows the last one of the request.
`default_nettype none

module nkv_masses
  import nearkv_pkg::*;
#(
    parameter int unsigned STORE_ROWS = DEFAULT_STORE_ROWS
) (
    input  wire logic                          clk,
    input  wire logic                          rst_n,
    input  wire logic                          start,
    input  wire request_t                      request,
    input  wire logic [BEAT_BITS-1:0]          initial_total,
    input  wire logic                          mass_valid,
    output logic                               mass_ready,
    input  wire log_mass_t                     mass,
    output logic                               stream_end,  // one cycle
    output logic [POSITION_BITS-1:0]           candidates,
    output logic [POSITION_BITS-1:0]           bad_blocks,
    output logic                               totals_valid,
    output logic [31:0]                        totals[MAX_GROUP],
    output logic                               store_write,
    output logic [WAY_BITS-1:0]                store_bank,
    output logic [$clog2(STORE_ROWS/WAYS)-1:0] store_row,
    output logic [HEADS*32-1:0]                store_data,
    output logic                               map_valid,
    input  wire logic                          map_ready,
    output logic [BEAT_BITS-1:0]               map_data,
    output logic                               tile_valid,
    input  wire logic                          tile_ready,
    output logic [BEAT_BITS-1:0]               tile_data
);
  localparam int unsigned ROW_BITS = $clog2(STORE_ROWS / WAYS);
  logic fold_ready, map_in_ready, tiles_in_ready, tile_last;
  logic [POSITION_BITS-1:0] position;
  wire logic last = position == request.blocks - 1'b1;
  wire logic others_ready = (request.topk || tiles_in_ready) && (!mass.last_in_block || map_in_ready);
  assign mass_ready = fold_ready && others_ready;
  wire logic take = mass_valid && mass_ready;
  wire logic block = take && mass.last_in_block;

  always_ff @(posedge clk) begin
    if (take) store_data[32'(mass.head[2:0])*32+:32] <= mass.value;
    store_bank <= position[WAY_BITS-1:0];
    store_row <= (request.group > 5'(HEADS)) ? ROW_BITS'({position[POSITION_BITS-1:WAY_BITS], mass.head[3]})
                                             : ROW_BITS'(position[POSITION_BITS-1:WAY_BITS]);
    if (!rst_n || start) begin
      store_write <= 1'b0;
      stream_end <= 1'b0;
      position <= '0;
      candidates <= '0;
    end else begin
      store_write <= take && mass.last_in_half && request.topk;
      stream_end <= block && last;
      if (block) begin
        position <= position + 1'b1;
        if (mass.value != EMPTY) candidates <= candidates + 1'b1;
      end
    end
  end

  nkv_fold fold (
      .clk,
      .rst_n,
      .start,
      .group(request.group),
      .initial_total,
      .mass_valid(mass_valid && others_ready),
      .mass_ready(fold_ready),
      .mass_value(mass.value),
      .mass_head(mass.head),
      .finish(stream_end),
      .totals_valid,
      .totals
  );

  nkv_bad_map bad_map (
      .clk,
      .rst_n,
      .start,
      .in_valid(block),
      .in_ready(map_in_ready),
      .in_bad(mass.bad),
      .in_last(last),
      .out_valid(map_valid),
      .out_ready(map_ready),
      .out_data(map_data),
      .bad_blocks
  );

  nkv_tiles tiles (
      .clk,
      .rst_n,
      .group(request.group),
      .in_valid(take && !request.topk),
      .in_ready(tiles_in_ready),
      .in_value(mass.value),
      .in_head(mass.head),
      .in_last_in_block(mass.last_in_block),
      .in_last(last),
      .out_valid(tile_valid),
      .out_ready(tile_ready),
      .out_data(tile_data),
      .out_last(tile_last)
  );
  wire logic unused = &{1'b0, tile_last, request};
endmodule

`default_nettype wire
