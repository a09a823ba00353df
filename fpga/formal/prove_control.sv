// nkv_control and nkv_run as a driver sees them over AXI4-Lite, whatever the driver, the core and the memory do: every
// write and read is answered once and in order, answers stay until they are taken, arguments read back as written;
// every start leads to one run, no start and no end of a run is lost, and a memory that never answers ends the run.
`default_nettype none

module prove_control
  import nearkv_pkg::*;
(
    input wire logic         clk,
    input wire logic         awvalid,
    input wire logic [6:2]   awaddr,
    input wire logic         wvalid,
    input wire logic [31:0]  wdata,
    input wire logic [3:0]   wstrb,
    input wire logic         bready,
    input wire logic         arvalid,
    input wire logic [6:2]   araddr,
    input wire logic         rready,
    input wire logic [3:0]   core_error,
    input wire logic         core_completed,
    input wire logic         beat_taken,
    input wire logic         request_begins,
    input wire logic         waiting,
    input wire logic         other_work,  // of the masters, beside what the memory owes
    input wire logic         progress,
    input wire logic         write_error,
    input wire logic         record_ready,
    input wire logic         record_data_ready,
    input wire logic [4:0]   watched  // a register and one of its bits
);
  localparam int unsigned WATCHDOG = 6;
  localparam logic [6:2] CONTROL = 5'h00, ISR = 5'h03, REQUESTS = 5'h04;
  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  logic awready, wready, bvalid, arready, rvalid, interrupt, start, taken, done, done_pending, idle;
  logic [31:0] rdata, requests, failed, completed, cycles, beats, stream_cycles;
  logic [63:0] commands, keys, results;
  status_t status;
  nkv_control control (
      .clk, .rst_n, .awvalid, .awready, .awaddr({5'd0, awaddr, 2'b00}), .wvalid, .wready, .wdata, .wstrb, .bvalid,
      .bready, .arvalid, .arready, .araddr({5'd0, araddr, 2'b00}), .rvalid, .rready, .rdata, .interrupt,
      .start, .taken, .done, .done_pending, .idle, .requests, .commands, .keys, .results,
      .status, .failed, .completed, .cycles, .beats, .stream_cycles
  );
  logic core_rst_n, core_start, flush, record_valid, record_data_valid;
  transfer_t record_write;
  logic [BEAT_BITS-1:0] record_data;
  wire logic masters_idle = !waiting && !other_work;
  nkv_run #(.WATCHDOG_CYCLES(WATCHDOG)) run (
      .clk, .rst_n, .start, .taken, .done, .done_pending, .idle, .requests, .results, .status, .failed, .completed,
      .cycles, .beats, .stream_cycles, .core_rst_n, .core_start, .core_error(status_t'(core_error)), .core_completed,
      .beat_taken, .request_begins, .flush, .masters_idle, .waiting, .progress, .write_error,
      .record_valid, .record_ready, .record_write, .record_data_valid, .record_data_ready, .record_data
  );

  wire logic write = awvalid && awready;
  wire logic read = arvalid && arready;
  wire logic to_control = write && awaddr == CONTROL && wstrb[0];
  wire logic starts = to_control && wdata[0];
  wire logic continues = to_control && wdata[4];
  logic after_reset = 1'b0;
  logic [1:0] writes_due = '0, reads_due = '0;  // answers that the driver is owed
  logic held_b = 1'b0, held_r = 1'b0;  // an answer that was offered and not taken
  logic wanted = 1'b0;  // a start that no run took up
  logic running = 1'b0, unseen_done = 1'b0, unseen_ready = 1'b0;
  logic raised = 1'b0;  // done was signalled while its interrupt was enabled, and ISR was not written since
  logic argument = 1'b0;  // the watched bit of REQUESTS, as the driver wrote it
  logic [31:0] last_rdata, snapshot;
  logic [6:2] last_address;
  logic [4:0] last_watched;
  logic last_read = 1'b0, last_argument;
  logic [3:0] last_control, stuck = '0;
  logic last_running = 1'b0;

  always_ff @(posedge clk) begin
    after_reset <= rst_n;
    last_watched <= watched;
    assume (!after_reset || watched == last_watched);

    held_b <= rst_n && bvalid && !bready;
    held_r <= rst_n && rvalid && !rready;
    last_rdata <= rdata;
    last_read <= rst_n && read;
    last_address <= araddr;
    last_argument <= argument;
    last_control <= {unseen_ready, idle, unseen_done, wanted};
    last_running <= running;
    snapshot <= {completed[27:0], status};
    if (rst_n) begin
      writes_due <= writes_due + 2'(write) - 2'(bvalid && bready);
      reads_due <= reads_due + 2'(read) - 2'(rvalid && rready);
      wanted <= starts || (wanted && !taken);
      running <= taken || (running && !done);
      unseen_done <= done || (unseen_done && !continues);
      unseen_ready <= taken || (unseen_ready && !(read && araddr == CONTROL));
      if (write && awaddr == REQUESTS && wstrb[watched[4:3]]) argument <= wdata[watched];
      if (write && awaddr == ISR && wstrb[0] && wdata[0]) raised <= done && control.ier[0];
      else raised <= raised || (done && control.ier[0]);
      stuck <= (running && waiting && !progress && !record_valid && !record_data_valid) ? stuck + 1'b1 : '0;

      // AXI4-Lite
      write_together: assert (awready == wready && (!awready || (awvalid && wvalid)));
      answered_once: assert (bvalid == (writes_due != 0) && writes_due <= 2'd1);
      read_once: assert (rvalid == (reads_due != 0) && reads_due <= 2'd1);
      b_stays: assert (!held_b || bvalid);
      r_stays: assert (!held_r || (rvalid && rdata == last_rdata));
      no_deadlock: assert ((!arvalid || arready || (rvalid && !rready))
                           && (!(awvalid && wvalid) || awready || (bvalid && !bready)));
      // registers
      ready_bit: assert (control.ready_seen == unseen_ready);
      control_reads: assert (!last_read || last_address != CONTROL || rdata == {28'd0, last_control});
      argument_reads: assert (!last_read || last_address != REQUESTS || rdata[watched] == last_argument);
      argument_holds: assert (requests[watched] == argument);
      // runs
      no_lost_start: assert (start == wanted);
      one_at_a_time: assert (!taken || (wanted && !running));
      end_of_a_run: assert (!done || running);
      no_lost_done: assert (done_pending == unseen_done && (!done || !unseen_done));
      acknowledged_first: assert (!running || !unseen_done);
      under_way: assert (running == (run.state != 0));
      idle_says_so: assert (idle == (!running && !wanted));
      results_stay: assert (running || last_running || !after_reset || snapshot == {completed[27:0], status});
      interrupts: assert (interrupt == (control.gie && control.isr != 0) && (!raised || control.isr[0]));
      quiet_between_runs: assert (running || !(core_rst_n || core_start || record_valid || record_data_valid) || done);
      silence: assert (stuck <= 4'(run.silence) || run.silence == 3'(WATCHDOG));
      never_hangs: assert (stuck <= 4'(WATCHDOG + 3));
      whole_run: cover (done && status == ST_OK && completed == 32'd2);
      timed_out: cover (done && status == ST_TIMEOUT);
    end
  end
endmodule

`default_nettype wire
