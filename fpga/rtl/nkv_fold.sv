// Stream total per head: the log-masses folded in order, starting from T0. Three cycles from reading a head's state to
// writing it back; a value for a head that is under way waits. `finish` turns the states into totals.
`default_nettype none

module nkv_fold
  import nearkv_pkg::*;
(
    input  wire logic                  clk,
    input  wire logic                  rst_n,
    input  wire logic                  start,  // one cycle
    input  wire logic [4:0]            group,
    input  wire logic [BEAT_BITS-1:0]  initial_total,
    input  wire logic                  mass_valid,
    output logic                       mass_ready,
    input  wire logic [31:0]           mass_value,
    input  wire logic [HEAD_BITS-1:0]  mass_head,
    input  wire logic                  finish,  // one cycle: no further values
    output logic                       totals_valid,
    output logic [31:0]                totals[MAX_GROUP]
);
  typedef enum logic [1:0] {INITIAL, STREAM, FINISH, DONE} state_t;
  state_t state;
  logic [HEAD_BITS-1:0] index;
  wire logic last_index = index == HEAD_BITS'(group - 5'd1);

  logic [MAX_GROUP-1:0] known;
  logic signed [23:0] exponents[MAX_GROUP];
  logic [FOLD_BITS-1:0] sums[MAX_GROUP];

  // ---- what enters: first T0, then the stream --------------------------------------------------------------------
  wire logic [31:0] value = (state == INITIAL) ? initial_total[32*32'(index)+:32] : mass_value;
  wire logic [HEAD_BITS-1:0] head = (state == INITIAL) ? index : mass_head;
  logic [2:1] valid;
  logic [HEAD_BITS-1:0] head1, head2;
  wire logic busy = (valid[1] && head1 == head) || (valid[2] && head2 == head);
  assign mass_ready = state == STREAM && !busy;
  wire logic take = (state == INITIAL && !busy) || (mass_valid && mass_ready);

  // ---- 1: state and distance, 2: both mantissas at the larger exponent ---------------------------------------------
  logic known1, larger1;
  logic signed [23:0] exponent1, exponent2;
  logic [5:0] shift1;
  logic [FOLD_BITS-1:0] sum1, sum2;
  logic [20:0] addend1, addend2;

  wire logic signed [24:0] distance = 25'(signed'(value[31:8])) - 25'(exponents[head]);
  wire logic [24:0] magnitude = (distance < 0) ? -distance : distance;

  always_ff @(posedge clk) begin
    if (take) begin
      head1 <= head;
      known1 <= known[head];
      larger1 <= distance > 0;
      shift1 <= (magnitude > 25'd40) ? 6'd40 : magnitude[5:0];
      exponent1 <= (known[head] && distance <= 0) ? exponents[head] : value[31:8];
      sum1 <= sums[head];
      addend1 <= {1'b1, value[7:0], 12'd0};
    end
    head2 <= head1;
    exponent2 <= exponent1;
    sum2 <= !known1 ? '0 : larger1 ? sum1 >> shift1 : sum1;
    addend2 <= (!known1 || larger1) ? addend1 : addend1 >> shift1;
    if (valid[2]) begin
      exponents[head2] <= exponent2;
      sums[head2] <= sum2 + FOLD_BITS'(addend2);
    end
    if (!rst_n || start) begin
      known <= '0;
      valid <= '0;
    end else begin
      valid <= {valid[1], take && value != EMPTY};
      if (valid[2]) known[head2] <= 1'b1;
    end
  end

  // ---- totals --------------------------------------------------------------------------------------------------------
  logic log_ready, log_valid, last_out;
  logic [HEAD_BITS-1:0] head_out;
  logic [31:0] value_out;
  wire logic log_go = state == FINISH && valid == 0;
  nkv_log2 #(
      .WIDTH(FOLD_BITS),
      .INFO_BITS(HEAD_BITS + 1)
  ) logarithm (
      .clk,
      .rst_n,
      .in_valid(log_go),
      .in_ready(log_ready),
      .empty(!known[index]),
      .exponent(exponents[index]),
      .s(sums[index]),
      .in_info({last_index, index}),
      .out_valid(log_valid),
      .out_ready(1'b1),
      .value(value_out),
      .out_info({last_out, head_out})
  );

  always_ff @(posedge clk) begin
    if (start) for (int h = 0; h < MAX_GROUP; h++) totals[h] <= '0;
    else if (log_valid) totals[head_out] <= value_out;
    if (!rst_n) begin
      state <= DONE;
      index <= '0;
      totals_valid <= 1'b0;
    end else if (start) begin
      state <= INITIAL;
      index <= '0;
      totals_valid <= 1'b0;
    end else begin
      unique case (state)
        INITIAL:
        if (take) begin
          index <= last_index ? '0 : index + 1'b1;
          if (last_index) state <= STREAM;
        end
        STREAM: if (finish) state <= FINISH;
        FINISH:
        if (log_go && log_ready) begin
          index <= last_index ? '0 : index + 1'b1;
          if (last_index) state <= DONE;
        end
        default: ;
      endcase
      if (log_valid && last_out) totals_valid <= 1'b1;
    end
  end
endmodule

`default_nettype wire
