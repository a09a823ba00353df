// From key beats to log-masses: sequencer, lanes, scaling, block unit, and the CRC beside them.
`default_nettype none

module nkv_score
  import nearkv_pkg::*;
(
    input  wire logic                     clk,
    input  wire logic                     rst_n,
    input  wire logic                     start,
    input  wire request_t                 request,
    output status_t                       error,

    input  wire logic                     query_write,
    input  wire logic                     write_bank,
    input  wire logic [HEAD_BITS-1:0]     query_head,
    input  wire logic [1:0]               query_part,
    input  wire logic                     query_int4,
    input  wire logic [1:0]               query_width,
    input  wire logic [BEAT_BITS-1:0]     query_beat,

    input  wire logic                     run_valid,
    output logic                          run_ready,
    input  wire run_t                     run,

    input  wire logic                     beat_valid,
    output logic                          beat_ready,
    input  wire logic [BEAT_BITS-1:0]     beat,
    input  wire logic                     beat_error,

    output logic                          mass_valid,
    input  wire logic                     mass_ready,
    output log_mass_t                     mass
);
  // ---- which heads and slots work in this request (constant while it streams) ----------------------------------
  logic [HEADS-1:0] heads_used;
  logic [PAIRS-1:0] pairs_used;
  wire logic two_slots = request.row <= 3'd1;
  always_comb begin
    for (int h = 0; h < HEADS; h++) heads_used[h] = request.group > 5'(h);
    for (int p = 0; p < PAIRS; p++) pairs_used[p] = heads_used[2*p];
  end

  // ---- sequencer -----------------------------------------------------------------------------------------------
  logic coefficient_write, bank_release, block_first, block_last, header_ok, op_valid;
  logic [1:0] coefficient;
  op_t op;
  logic [BEAT_BITS-1:0] op_beat;
  nkv_sequencer sequencer (
      .clk, .rst_n, .start, .request, .error,
      .run_valid, .run_ready, .run, .coefficient_write, .coefficient,
      .beat_valid, .beat_ready, .beat, .beat_error,
      .bank_release, .block_first, .block_last, .header_ok,
      .op_valid, .op, .op_beat
  );

  // ---- soundness of each block -----------------------------------------------------------------------------------
  wire logic beat_taken = beat_valid && beat_ready;
  logic crc_valid, crc_match, sound_valid, sound_ready, sound;
  logic header_valid, header_sound, unused_header_ready, unused_sound_ready;
  logic [3:0] headers, sounds;
  nkv_crc32c crc (
      .clk, .rst_n,
      .beat_valid(beat_taken), .first(block_first), .last(block_last), .beat,
      .result_valid(crc_valid), .match(crc_match)
  );
  nkv_fifo #(.WIDTH(1), .DEPTH(8)) header_queue (
      .clk, .rst_n, .in_valid(block_first), .in_ready(unused_header_ready), .in_data(header_ok),
      .out_valid(header_valid), .out_ready(crc_valid), .out_data(header_sound), .count(headers)
  );
  nkv_fifo #(.WIDTH(1), .DEPTH(8)) sound_queue (
      .clk, .rst_n, .in_valid(crc_valid), .in_ready(unused_sound_ready), .in_data(crc_match && header_sound),
      .out_valid(sound_valid), .out_ready(sound_ready), .out_data(sound), .count(sounds)
  );

  // ---- queries ---------------------------------------------------------------------------------------------------
  logic [LANES-1:0][7:0] write_even, write_odd;
  logic [1:0] lane_halves, write_chunk;
  nkv_query_layout query_layout (
      .int4(query_int4), .width(query_width), .part(query_part), .beat(query_beat),
      .even(write_even), .odd(write_odd), .lane_halves, .chunk(write_chunk)
  );
  logic [LANES*8-1:0] query_even[HEADS], query_odd[HEADS];
  nkv_query_store query_store (
      .clk,
      .write(query_write), .write_bank, .write_head(query_head), .write_chunk, .lane_halves, .write_even, .write_odd,
      .read(op_valid), .read_bank(request.bank), .read_half(op.half), .read_chunk(op.chunk),
      .even(query_even), .odd(query_odd)
  );

  // ---- lanes and scaling -------------------------------------------------------------------------------------------
  logic dot_valid, x_valid;
  op_t dot_op, x_op;
  logic signed [23:0] dot0[HEADS], dot1[HEADS];
  logic signed [31:0] x0[HEADS], x1[HEADS];
  nkv_mac mac (
      .clk, .rst_n, .int4(request.int4), .row(request.row), .pairs_used,
      .op_valid, .op, .beat(op_beat), .query_even, .query_odd,
      .dot_valid, .dot_op, .dot0, .dot1
  );

  logic c_read, r_read, b_read;
  logic [2:0] c_address, r_address, b_address;
  logic [15:0] c[HEADS];
  logic [5:0] r[HEADS];
  logic signed [31:0] b[HEADS];
  nkv_coefficients coefficients (
      .clk, .write(coefficient_write), .write_entry(coefficient), .run,
      .c_read, .c_address, .c, .r_read, .r_address, .r, .b_read, .b_address, .b
  );
  nkv_scale scale (
      .clk, .rst_n, .heads_used, .two_slots, .dot_valid, .dot_op, .dot0, .dot1,
      .c_read, .c_address, .c, .r_read, .r_address, .r, .b_read, .b_address, .b,
      .x_valid, .x_op, .x0, .x1
  );

  // ---- blocks ------------------------------------------------------------------------------------------------------
  logic job_valid, job_half, job_last_half, job_exists, score_read;
  logic [X_BANK_BITS-1:0] job_bank;
  logic signed [23:0] job_peak[HEADS];
  logic [X_BANK_BITS+4:0] score_address;
  logic [HEADS*32:0] score0, score1;
  nkv_block_scores block_scores (
      .clk, .rst_n, .heads_used, .two_slots, .x_valid, .x_op, .x0, .x1,
      .job_valid, .job_bank, .job_half, .job_last_half, .job_exists, .job_peak,
      .read(score_read), .read_address(score_address), .read0(score0), .read1(score1)
  );
  nkv_block_mass block_mass (
      .clk, .rst_n, .group(request.group), .heads_used,
      .job_valid, .job_bank, .job_half, .job_last_half, .job_exists, .job_peak, .bank_release,
      .read(score_read), .read_address(score_address), .read0(score0), .read1(score1),
      .sound_valid, .sound_ready, .sound,
      .mass_valid, .mass_ready, .mass
  );
  wire logic unused = &{1'b0, header_valid, unused_header_ready, unused_sound_ready, headers, sounds};
endmodule

`default_nettype wire
