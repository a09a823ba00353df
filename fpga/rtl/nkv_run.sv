// One kernel run: clean start, requests until all are complete or one fails, completion record, done. After an error
// the core is reset and the masters finish what they owe; a memory that does not answer ends the run by watchdog.
`default_nettype none

module nkv_run
  import nearkv_pkg::*;
#(
    parameter int unsigned WATCHDOG_CYCLES = DEFAULT_WATCHDOG_CYCLES
) (
    input  wire logic                     clk,
    input  wire logic                     rst_n,
    input  wire logic                     start,  // level
    output logic                          taken,  // one cycle
    output logic                          done,   // one cycle
    input  wire logic                     done_pending,
    output logic                          idle,
    input  wire logic [31:0]              requests,
    input  wire logic [ADDRESS_BITS-1:0]  results,
    output status_t                       status,
    output logic [31:0]                   failed,
    output logic [31:0]                   completed,
    output logic [31:0]                   cycles,
    output logic [31:0]                   beats,
    output logic [31:0]                   stream_cycles,

    output logic                          core_rst_n,
    output logic                          core_start,  // one cycle
    input  wire status_t                  core_error,
    input  wire logic                     core_completed,
    input  wire logic                     beat_taken,
    input  wire logic                     request_begins,

    output logic                          flush,
    input  wire logic                     masters_idle,
    input  wire logic                     waiting,   // something is owed by the memory
    input  wire logic                     progress,  // a handshake on any channel
    input  wire logic                     write_error,

    output logic                          record_valid,  // the record's write transfer, then its beat
    input  wire logic                     record_ready,
    output transfer_t                     record_write,
    output logic                          record_data_valid,
    input  wire logic                     record_data_ready,
    output logic [BEAT_BITS-1:0]          record_data
);
  localparam int unsigned WW = $clog2(WATCHDOG_CYCLES + 1);
  typedef enum logic [2:0] {IDLE, CLEAN, RUN, FLUSH, RECORD, RECORD_DATA, RECORD_WAIT, FINISH} state_t;
  state_t state;
  logic [WW-1:0] silence;
  logic [31:0] gap;
  logic streaming;  // the current request had its first beat
  wire logic expired = silence == WW'(WATCHDOG_CYCLES);
  wire logic all_complete = completed == requests;

  assign taken = state == IDLE && start && !done_pending;
  assign done = state == FINISH;
  assign idle = state == IDLE && !start;
  assign flush = state == IDLE || state == CLEAN || state == FLUSH || state == FINISH;
  assign failed = completed;
  assign record_valid = state == RECORD;
  assign record_write = '{results, BEATS_BITS'(1)};
  assign record_data_valid = state == RECORD_DATA;
  assign record_data = BEAT_BITS'({stream_cycles, beats, cycles, INTERFACE_VERSION, completed, failed, 32'(status)});

  always_ff @(posedge clk) begin
    if (state == CLEAN) begin
      beats <= '0;
      stream_cycles <= '0;
    end else if (beat_taken && state == RUN) begin
      beats <= beats + 1'b1;
      stream_cycles <= stream_cycles + (streaming ? gap : 32'd1);
    end
    gap <= beat_taken ? 32'd1 : gap + 1'b1;
    if (taken) cycles <= 32'd1;
    else if (state != IDLE) cycles <= cycles + 1'b1;

    if (!rst_n) begin
      state <= IDLE;
      core_rst_n <= 1'b0;
      core_start <= 1'b0;
      silence <= '0;
      status <= ST_OK;
      completed <= '0;
      streaming <= 1'b0;
    end else begin
      core_rst_n <= state == RUN;
      core_start <= state == RUN && !core_rst_n;
      silence <= (progress || !waiting) ? '0 : expired ? silence : silence + 1'b1;
      streaming <= beat_taken || (streaming && !request_begins);
      if (core_completed && state == RUN && !write_error) completed <= completed + 1'b1;
      unique case (state)
        IDLE:
        if (taken) begin
          state <= CLEAN;
          status <= ST_OK;
          completed <= '0;
          silence <= '0;
        end
        CLEAN:
        if (masters_idle) state <= RUN;
        else if (expired) begin
          state <= FINISH;
          status <= ST_TIMEOUT;
        end
        RUN:
        if (expired) begin
          state <= FINISH;
          status <= ST_TIMEOUT;
        end else if (write_error) begin
          state <= FLUSH;
          status <= ST_RESULT_WRITE;
        end else if (core_rst_n && core_error != ST_OK) begin
          state <= FLUSH;
          status <= core_error;
        end else if (all_complete) state <= FLUSH;
        FLUSH:
        if (masters_idle) state <= (results[5:0] == 0) ? RECORD : FINISH;
        else if (expired) begin
          state <= FINISH;
          status <= ST_TIMEOUT;
        end
        RECORD: if (record_ready) state <= RECORD_DATA;
        RECORD_DATA: if (record_data_ready) state <= RECORD_WAIT;
        RECORD_WAIT:
        if (expired) begin
          state <= FINISH;
          status <= ST_TIMEOUT;
        end else if (masters_idle) begin
          state <= FINISH;
          if (write_error && status == ST_OK) status <= ST_RESULT_WRITE;
        end
        default: state <= IDLE;
      endcase
    end
  end
endmodule

`default_nettype wire
