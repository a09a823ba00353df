// Every small module once, for the module benches: clock and reset are connected, everything else is driven and
// watched from Python, so that one build serves all of them.
`default_nettype none

module nkv_modules (
    input wire logic clk,
    input wire logic rst_n
);
  bench_queue #(.DEPTH(8)) fifo (.clk, .rst_n);
  bench_queue #(.DEPTH(16), .RAM(1'b1)) ram_fifo (.clk, .rst_n);
  bench_queue #(.SKID(1'b1)) skid (.clk, .rst_n);
  nkv_axi_reader #(.FIFO_BEATS(64), .MAX_BURST(16)) axi_reader (.clk, .rst_n);
  nkv_axi_writer axi_writer (.clk, .rst_n);
  nkv_control control (.clk, .rst_n);
  nkv_crc32c crc32c (.clk, .rst_n);
  nkv_log2 #(.WIDTH(27), .INFO_BITS(8)) log2 (.clk, .rst_n);
  nkv_fold fold (.clk, .rst_n);
  nkv_tiles tiles (.clk, .rst_n);
  nkv_bad_map bad_map (.clk, .rst_n);
  nkv_merge_sorter #(.LEVELS(7)) merge_sorter (.clk, .rst_n);
  nkv_pack_pairs pack_pairs (.clk, .rst_n);

  // ---- lanes with their query store -----------------------------------------------------------------------------
  nkv_query_layout layout ();
  logic [511:0] query_even[8], query_odd[8];
  nkv_query_store query_store (
      .clk, .write_even(layout.even), .write_odd(layout.odd), .lane_halves(layout.lane_halves),
      .write_chunk(layout.chunk), .even(query_even), .odd(query_odd)
  );
  nkv_mac mac (.clk, .rst_n, .query_even, .query_odd);

  // ---- scaling with its coefficients ------------------------------------------------------------------------------
  logic c_read, r_read, b_read;
  logic [2:0] c_address, r_address, b_address;
  logic [15:0] c[8];
  logic [5:0] r[8];
  logic signed [31:0] b[8];
  nkv_coefficients coefficients (
      .clk, .c_read, .c_address, .c, .r_read, .r_address, .r, .b_read, .b_address, .b
  );
  nkv_scale scale (
      .clk, .rst_n, .c_read, .c_address, .c, .r_read, .r_address, .r, .b_read, .b_address, .b
  );

  // ---- block unit: scores in, log-masses out ----------------------------------------------------------------------
  logic job_valid, job_half, job_last_half, job_exists, score_read;
  logic [1:0] job_bank;
  logic signed [23:0] job_peak[8];
  logic [6:0] score_address;
  logic [256:0] score0, score1;
  nkv_block_scores block_scores (
      .clk, .rst_n, .job_valid, .job_bank, .job_half, .job_last_half, .job_exists, .job_peak,
      .read(score_read), .read_address(score_address), .read0(score0), .read1(score1)
  );
  nkv_block_mass block_mass (
      .clk, .rst_n, .job_valid, .job_bank, .job_half, .job_last_half, .job_exists, .job_peak,
      .read(score_read), .read_address(score_address), .read0(score0), .read1(score1)
  );

  // ---- selection with its store -----------------------------------------------------------------------------------
  logic store_read;
  logic [9:0] store_row;
  logic [3:0][255:0] store_data;
  nkv_store #(.ROWS(4096)) store (.clk, .read(store_read), .read_row(store_row), .read_data(store_data));
  nkv_select #(.STORE_ROWS(4096)) selection (
      .clk, .rst_n, .read(store_read), .read_row(store_row), .read_data(store_data)
  );

  nkv_results result_writes (.clk, .rst_n);
endmodule

// A FIFO, a FIFO in block RAM, or a skid buffer with signals that a bench may see: the kernel's many other queues stay
// hidden from it, which is what makes the simulation build quickly.
module bench_queue #(
    parameter int unsigned DEPTH = 8,
    parameter bit RAM = 1'b0,
    parameter bit SKID = 1'b0
) (
    input  wire logic                       clk,
    input  wire logic                       rst_n,
    input  wire logic                       in_valid,
    output logic                            in_ready,
    input  wire logic [15:0]                in_data,
    output logic                            out_valid,
    input  wire logic                       out_ready,
    output logic [15:0]                     out_data,
    output logic [$clog2(DEPTH+3)-1:0]      count
);
  if (SKID) begin : g_skid
    nkv_skid #(.WIDTH(16)) queue (.*);
    assign count = '0;
  end else if (RAM) begin : g_ram
    nkv_ram_fifo #(.WIDTH(16), .DEPTH(DEPTH)) queue (.*);
  end else begin : g_fifo
    logic [$clog2(DEPTH+1)-1:0] held;
    nkv_fifo #(.WIDTH(16), .DEPTH(DEPTH)) queue (.*, .count(held));
    assign count = ($clog2(DEPTH + 3))'(held);
  end
endmodule

`default_nettype wire
