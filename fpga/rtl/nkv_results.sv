// Where results go: turns bitmap beats, tiles, pairs and the final header with the totals into write transfers.
`default_nettype none

module nkv_results
  import nearkv_pkg::*;
(
    input  wire logic                      clk,
    input  wire logic                      rst_n,
    input  wire logic                      start,  // one cycle: `request` is new
    input  wire request_t                  request,
    input  wire logic [K_BITS-1:0]         pairs,
    input  wire logic [POSITION_BITS-1:0]  bad_blocks,
    input  wire logic [31:0]               totals[MAX_GROUP],
    input  wire logic                      finish,  // level: everything but header and totals was handed over
    output logic                           finished,  // one cycle: they were handed over, too

    input  wire logic                      map_valid,
    output logic                           map_ready,
    input  wire logic [BEAT_BITS-1:0]      map_data,
    input  wire logic                      tile_valid,
    output logic                           tile_ready,
    input  wire logic [BEAT_BITS-1:0]      tile_data,
    input  wire logic                      pairs_valid,
    output logic                           pairs_ready,
    input  wire logic [BEAT_BITS-1:0]      pairs_data,

    output logic                           command_valid,
    input  wire logic                      command_ready,
    output transfer_t                      command,
    output logic                           data_valid,
    input  wire logic                      data_ready,
    output logic [BEAT_BITS-1:0]           data
);
  typedef enum logic [2:0] {CHOOSE, MAP, TILE, SELECTED, HEADER, TOTALS} state_t;
  state_t state, choice;
  logic [ADDRESS_BITS-1:0] map_address, payload_address;
  logic [8:0] left;  // beats of this burst
  wire logic [8:0] pair_beats = 9'((pairs + K_BITS'(7)) >> 3);

  logic source_valid;
  always_comb begin
    choice = CHOOSE;
    command.address = payload_address;
    command.beats = BEATS_BITS'(pair_beats);
    if (map_valid) begin
      choice = MAP;
      command = '{map_address, BEATS_BITS'(1)};
    end else if (tile_valid) begin
      choice = TILE;
      command = '{payload_address, BEATS_BITS'(request.group)};
    end else if (pairs_valid) begin
      choice = SELECTED;
    end else if (finish) begin
      choice = HEADER;
      command = '{request.result, BEATS_BITS'(2)};
    end
    command_valid = state == CHOOSE && choice != CHOOSE;

    unique case (state)
      MAP: {source_valid, data} = {map_valid, map_data};
      TILE: {source_valid, data} = {tile_valid, tile_data};
      SELECTED: {source_valid, data} = {pairs_valid, pairs_data};
      HEADER: begin
        source_valid = 1'b1;
        data = BEAT_BITS'({32'(request.group), 32'(request.blocks), 32'(bad_blocks),
                           request.topk ? 32'(pairs) : 32'(request.blocks)});
      end
      TOTALS: begin
        source_valid = 1'b1;
        for (int h = 0; h < MAX_GROUP; h++) data[h*32+:32] = totals[h];
      end
      default: {source_valid, data} = '0;
    endcase
  end
  assign data_valid = source_valid;
  wire logic pass = data_valid && data_ready;
  assign map_ready = state == MAP && data_ready;
  assign tile_ready = state == TILE && data_ready;
  assign pairs_ready = state == SELECTED && data_ready;
  assign finished = state == TOTALS && pass;

  always_ff @(posedge clk) begin
    if (start) begin
      map_address <= request.result + 64'd128;
      // ceil(blocks / 512) beats of bitmap
      payload_address <= request.result + 64'd128 + {49'd0, 9'((request.blocks + POSITION_BITS'(511)) >> 9), 6'd0};
    end else if (command_valid && command_ready) begin
      if (choice == MAP) map_address <= map_address + 64'd64;
      else payload_address <= payload_address + (64'(command.beats) << 6);
      left <= 9'(command.beats);
    end else if (pass) begin
      left <= left - 1'b1;
    end
    if (!rst_n) state <= CHOOSE;
    else begin
      unique case (state)
        CHOOSE: if (command_valid && command_ready) state <= choice;
        HEADER: if (pass) state <= TOTALS;
        default: if (pass && left == 9'd1) state <= CHOOSE;
      endcase
    end
  end
  wire logic unused = &{1'b0, request};
endmodule

`default_nettype wire
