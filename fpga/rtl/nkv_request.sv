// Life of one request: stream its blocks, close the totals, select (TOPK), write what is left, wait until the memory
// has it all. One request at a time; the next one is fetched meanwhile.
`default_nettype none

module nkv_request
  import nearkv_pkg::*;
(
    input  wire logic                      clk,
    input  wire logic                      rst_n,
    input  wire logic                      request_valid,
    output logic                           request_ready,
    input  wire request_t                  request_in,
    output logic                           start,  // one cycle; `request` is constant from here to `completed`
    output request_t                       request,
    output status_t                        error,  // level: the request is refused
    input  wire logic                      stream_end,  // one cycle: the last log-mass has passed
    input  wire logic                      totals_valid,
    input  wire logic [POSITION_BITS-1:0]  candidates,
    output logic [K_BITS-1:0]              pairs,  // min(k, candidates)
    input  wire logic                      select_idle,
    output logic                           select,  // one cycle
    output logic                           finish,  // level
    input  wire logic                      pairs_beat,  // a beat of pairs was handed over
    input  wire logic                      finished,
    input  wire logic                      writer_idle,
    output logic                           completed  // one cycle
);
  typedef enum logic [2:0] {WAIT, BEGIN_STREAM, STREAM, TOTALS, SELECT, HEADER, DRAIN} state_t;
  state_t state;
  logic [8:0] beats_left;

  assign request_ready = state == WAIT && request_in.error == ST_OK;
  assign error = (state == WAIT && request_valid) ? request_in.error : ST_OK;
  assign start = state == BEGIN_STREAM;
  assign finish = state == HEADER;
  assign completed = state == DRAIN && writer_idle;
  wire logic selects = request.topk && pairs != 0;
  assign select = state == TOTALS && totals_valid && selects && select_idle;

  always_ff @(posedge clk) begin
    if (request_valid && request_ready) request <= request_in;
    pairs <= (candidates < POSITION_BITS'(request.k)) ? K_BITS'(candidates) : request.k;
    if (select) beats_left <= 9'((pairs + K_BITS'(7)) >> 3);
    else if (pairs_beat) beats_left <= beats_left - 1'b1;
    if (!rst_n) state <= WAIT;
    else begin
      unique case (state)
        WAIT: if (request_valid && request_ready) state <= BEGIN_STREAM;
        BEGIN_STREAM: state <= STREAM;
        STREAM: if (stream_end) state <= TOTALS;
        TOTALS: if (totals_valid && (!selects || select_idle)) state <= selects ? SELECT : HEADER;
        SELECT: if (pairs_beat && beats_left == 9'd1) state <= HEADER;
        HEADER: if (finished) state <= DRAIN;
        default: if (writer_idle) state <= WAIT;
      endcase
    end
  end
endmodule

`default_nettype wire
