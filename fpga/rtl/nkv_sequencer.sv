// Turns the beats of score blocks into passes through the lanes: one per payload beat, two when there are more than
// eight heads, two when rows have 16 bytes. A block starts only when the block unit has a bank for its scores, so
// everything behind this module runs without stalls.
`default_nettype none

module nkv_sequencer
  import nearkv_pkg::*;
(
    input  wire logic                  clk,
    input  wire logic                  rst_n,
    input  wire logic                  start,  // one cycle: a request begins
    input  wire request_t              request,
    output status_t                    error,  // level

    input  wire logic                  run_valid,
    output logic                       run_ready,
    input  wire run_t                  run,
    output logic                       coefficient_write,
    output logic [1:0]                 coefficient,

    input  wire logic                  beat_valid,
    output logic                       beat_ready,
    input  wire logic [BEAT_BITS-1:0]  beat,
    input  wire logic                  beat_error,

    input  wire logic                  bank_release,
    output logic                       block_first,  // the beat taken now is a header
    output logic                       block_last,   // or the last of its block
    output logic                       header_ok,

    output logic                       op_valid,
    output op_t                        op,
    output logic [BEAT_BITS-1:0]       op_beat
);
  logic more_runs, run_active, payload;
  logic [POSITION_BITS-1:0] blocks_left;
  logic [6:0] index;  // payload beat
  logic [1:0] pass;
  logic [X_BANK_BITS-1:0] x_bank;
  logic [X_BANK_BITS:0] x_used;
  logic [BLOCK_TOKENS-1:0][7:0] m;

  wire logic two_halves = request.group > 5'(HEADS);
  wire logic two_phases = request.row == 3'd0;
  wire logic [1:0] last_pass = {two_halves && two_phases, two_halves || two_phases};
  wire logic half = two_halves && pass[0];
  wire logic phase = two_phases && (two_halves ? pass[1] : pass[0]);

  wire logic [6:0] last_index = 7'((8'd8 << request.row) - 8'd1);
  wire logic header_go = !payload && run_active && beat_valid && x_used != (X_BANK_BITS+1)'(X_BANKS);
  wire logic payload_go = payload && beat_valid;
  wire logic payload_done = payload_go && pass == last_pass;
  wire logic run_done = block_last && blocks_left == POSITION_BITS'(1);
  wire logic load = run_valid && more_runs && (!run_active || run_done) && run.error == ST_OK;

  assign beat_ready = header_go || payload_done;
  assign block_first = header_go;
  assign block_last = payload_done && index == last_index;
  assign header_ok = beat[32*8+:8] == (request.int4 ? 8'd4 : 8'd8) && beat[33*8+:8] == 8'(8'd1 << request.width);
  assign run_ready = load;
  assign coefficient_write = load;

  // ---- where the beat lies in its block ----------------------------------------------------------------------------
  logic [4:0] token;
  logic [1:0] chunk, last_chunk;
  always_comb begin
    unique case (request.row)
      3'd0: token = {index[2:0], phase, 1'b0};
      3'd1: token = {index[3:0], 1'b0};
      3'd2: token = index[4:0];
      3'd3: token = index[5:1];
      default: token = index[6:2];
    endcase
    last_chunk = {request.row[2], request.row[2] || request.row == 3'd3};
    chunk = index[1:0] & last_chunk;
  end

  always_ff @(posedge clk) begin
    if (header_go) m <= beat[255:0];
    if (payload_go) begin
      op_beat <= beat;
      op.chunk <= chunk;
      op.half <= half;
      op.phase <= phase;
      op.coefficient <= coefficient - 2'd1;
      op.x_bank <= x_bank;
      op.token <= token;
      op.m0 <= m[token];
      op.m1 <= m[{token[4:1], 1'b1}];
      op.first_part <= chunk == 0;
      op.last_part <= chunk == last_chunk;
      op.last_half <= half == two_halves;
    end
    if (load) blocks_left <= run.blocks;
    else if (block_last) blocks_left <= blocks_left - 1'b1;
    if (header_go) begin
      index <= '0;
      pass  <= '0;
    end else if (payload_go) begin
      pass <= payload_done ? '0 : pass + 1'b1;
      if (payload_done) index <= index + 1'b1;
    end

    if (!rst_n) begin
      op_valid <= 1'b0;
      more_runs <= 1'b0;
      run_active <= 1'b0;
      payload <= 1'b0;
      coefficient <= '0;
      x_bank <= '0;
      x_used <= '0;
      error <= ST_OK;
    end else begin
      op_valid <= payload_go;
      if (start) more_runs <= 1'b1;
      else if (load && run.last) more_runs <= 1'b0;
      run_active <= load || (run_active && !run_done);
      if (header_go) payload <= 1'b1;
      else if (block_last) payload <= 1'b0;
      if (load) coefficient <= coefficient + 1'b1;
      if (block_last) x_bank <= x_bank + 1'b1;
      x_used <= x_used + (X_BANK_BITS+1)'(header_go) - (X_BANK_BITS+1)'(bank_release);
      if (error == ST_OK) begin
        if (beat_valid && beat_ready && beat_error) error <= ST_KEY_READ;
        else if (run_valid && more_runs && !run_active) error <= run.error;
      end
    end
  end
  wire logic unused = &{1'b0, request, run};
endmodule

`default_nettype wire
