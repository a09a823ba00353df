// Log-mass of a block, per head: adds 2^x of its tokens relative to the block's maximum, two tokens of eight heads a
// cycle, then takes log2 head by head. Blocks follow each other without bubbles.
`default_nettype none

module nkv_block_mass
  import nearkv_pkg::*;
(
    input  wire logic               clk,
    input  wire logic               rst_n,
    input  wire logic [4:0]         group,
    input  wire logic [HEADS-1:0]   heads_used,

    input  wire logic               job_valid,
    input  wire logic [X_BANK_BITS-1:0] job_bank,
    input  wire logic               job_half,
    input  wire logic               job_last_half,
    input  wire logic               job_exists,
    input  wire logic signed [23:0] job_peak[HEADS],
    output logic                    bank_release,

    output logic                    read,
    output logic [X_BANK_BITS+4:0]  read_address,
    input  wire logic [HEADS*32:0]  read0,
    input  wire logic [HEADS*32:0]  read1,

    input  wire logic               sound_valid,  // CRC and header of the next block are known
    output logic                    sound_ready,
    input  wire logic               sound,

    output logic                    mass_valid,
    input  wire logic               mass_ready,
    output log_mass_t               mass
);
  localparam int unsigned SUM_BITS = 27;  // 32 addends below 2^21, and one bit to spare
  localparam int unsigned JOB_BITS = X_BANK_BITS + 3 + HEADS * 24;
  localparam int unsigned RESULT_BITS = 3 + HEADS * (24 + SUM_BITS);
  localparam int unsigned RESULTS = 4;

  // ---- jobs --------------------------------------------------------------------------------------------------
  logic [HEADS*24-1:0] job_peaks;
  always_comb for (int h = 0; h < HEADS; h++) job_peaks[h*24+:24] = job_peak[h];

  logic queue_valid, queue_ready, unused_ready;
  logic [3:0] queue_count;
  logic [X_BANK_BITS-1:0] bank;
  logic half, last_half, exists;
  logic [HEADS*24-1:0] peaks;
  nkv_fifo #(
      .WIDTH(JOB_BITS),
      .DEPTH(2 * X_BANKS)
  ) jobs (
      .clk,
      .rst_n,
      .in_valid(job_valid),
      .in_ready(unused_ready),
      .in_data({job_bank, job_half, job_last_half, job_exists, job_peaks}),
      .out_valid(queue_valid),
      .out_ready(queue_ready),
      .out_data({bank, half, last_half, exists, peaks}),
      .count(queue_count)
  );

  // ---- 0: one pair of tokens a cycle -----------------------------------------------------------------------------
  logic [3:0] pair;
  logic [2:0] results_due;  // jobs begun whose result has not left the result queue
  logic result_pop;
  wire logic go = queue_valid && (pair != 0 || results_due != 3'(RESULTS));
  assign read = go;
  assign read_address = {bank, half, pair};
  assign queue_ready = go && pair == 4'd15;
  assign bank_release = queue_ready && last_half;

  logic [3:1] valid, last;
  logic [2:1] first;
  logic [2:0] info1, info2, info3;  // {half, last_half, exists}
  logic signed [23:0] peak1[HEADS], peak2[HEADS], peak3[HEADS];
  always_ff @(posedge clk) begin
    first <= {first[1], pair == 0};
    last  <= {last[2:1], pair == 4'd15};
    if (go && pair == 0) begin
      info1 <= {half, last_half, exists};
      for (int h = 0; h < HEADS; h++) peak1[h] <= peaks[h*24+:24];
    end
    if (valid[1] && first[1]) begin
      info2 <= info1;
      peak2 <= peak1;
    end
    if (valid[2] && first[2]) begin
      info3 <= info2;
      peak3 <= peak2;
    end
    if (!rst_n) begin
      valid <= '0;
      pair <= '0;
      results_due <= '0;
    end else begin
      valid <= {valid[2:1], go};
      if (go) pair <= pair + 1'b1;
      results_due <= results_due + 3'(go && pair == 0) - 3'(result_pop);
    end
  end

  // ---- 2: addends, 3: sums -----------------------------------------------------------------------------------------
  function automatic logic [20:0] addend(input logic [31:0] x, input logic signed [23:0] peak);
    logic [24:0] distance;
    logic [4:0] shift;
    distance = 25'(peak) - 25'(signed'(x[31:8]));
    shift = (distance > 25'd31) ? 5'd31 : distance[4:0];
    return {1'b1, x[7:0], 12'd0} >> shift;
  endfunction

  logic [20:0] addend0[HEADS], addend1[HEADS];
  logic [SUM_BITS-1:0] sum[HEADS];
  always_ff @(posedge clk) begin
    for (int h = 0; h < HEADS; h++) begin
      if (heads_used[h]) begin
        if (valid[1]) begin
          addend0[h] <= read0[HEADS*32] ? addend(read0[h*32+:32], peak1[h]) : '0;
          addend1[h] <= read1[HEADS*32] ? addend(read1[h*32+:32], peak1[h]) : '0;
        end
        if (valid[2]) sum[h] <= (first[2] ? '0 : sum[h]) + SUM_BITS'(addend0[h]) + SUM_BITS'(addend1[h]);
      end
    end
  end

  logic [HEADS*(24+SUM_BITS)-1:0] sums;
  always_comb for (int h = 0; h < HEADS; h++) sums[h*(24+SUM_BITS)+:24+SUM_BITS] = {peak3[h], sum[h]};
  logic result_valid, unused_result_ready;
  logic [2:0] result_count;
  logic result_half, result_last_half, result_exists;
  logic [HEADS*(24+SUM_BITS)-1:0] result_sums;
  nkv_fifo #(
      .WIDTH(RESULT_BITS),
      .DEPTH(RESULTS)
  ) results (
      .clk,
      .rst_n,
      .in_valid(valid[3] && last[3]),
      .in_ready(unused_result_ready),
      .in_data({info3, sums}),
      .out_valid(result_valid),
      .out_ready(result_pop),
      .out_data({result_half, result_last_half, result_exists, result_sums}),
      .count(result_count)
  );

  // ---- head by head through the logarithm ------------------------------------------------------------------------
  logic [2:0] head;
  wire logic [2:0] last_head = (group > 5'(HEADS) && !result_half) ? 3'(HEADS - 1) : 3'(group - 5'd1);
  logic log_ready;
  wire logic log_valid = result_valid && sound_valid;
  wire logic log_take = log_valid && log_ready;
  wire logic last_in_half = head == last_head;
  logic signed [23:0] head_peak;
  logic [SUM_BITS-1:0] head_sum;
  always_comb {head_peak, head_sum} = result_sums[32'(head)*(24+SUM_BITS)+:24+SUM_BITS];
  assign result_pop = log_take && last_in_half;
  assign sound_ready = result_pop && result_last_half;

  always_ff @(posedge clk) begin
    if (!rst_n) head <= '0;
    else if (log_take) head <= last_in_half ? '0 : head + 1'b1;
  end

  nkv_log2 #(
      .WIDTH(SUM_BITS),
      .INFO_BITS(HEAD_BITS + 3)
  ) logarithm (
      .clk,
      .rst_n,
      .in_valid(log_valid),
      .in_ready(log_ready),
      .empty(!result_exists || !sound),
      .exponent(head_peak),
      .s(head_sum),
      .in_info({result_half, head, last_in_half, last_in_half && result_last_half, !sound}),
      .out_valid(mass_valid),
      .out_ready(mass_ready),
      .value(mass.value),
      .out_info({mass.head, mass.last_in_half, mass.last_in_block, mass.bad})
  );
  wire logic unused = &{1'b0, unused_ready, unused_result_ready, queue_count, result_count};
endmodule

`default_nettype wire
