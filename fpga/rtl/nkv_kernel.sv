// The kernel: control registers, run control, core and masters. All transfers are 512-bit INCR bursts with one ID.
`default_nettype none

module nkv_kernel
  import nearkv_pkg::*;
#(
    parameter int unsigned STORE_ROWS = DEFAULT_STORE_ROWS,
    parameter int unsigned WATCHDOG_CYCLES = DEFAULT_WATCHDOG_CYCLES
) (
    input wire logic            ap_clk,
    input wire logic            ap_rst_n,
    output logic                interrupt,

    input wire logic   [11:0]   s_axi_control_awaddr,
    input wire logic   [2:0]    s_axi_control_awprot,
    input wire logic            s_axi_control_awvalid,
    output logic                s_axi_control_awready,
    input wire logic   [31:0]   s_axi_control_wdata,
    input wire logic   [3:0]    s_axi_control_wstrb,
    input wire logic            s_axi_control_wvalid,
    output logic                s_axi_control_wready,
    output logic       [1:0]    s_axi_control_bresp,
    output logic                s_axi_control_bvalid,
    input wire logic            s_axi_control_bready,
    input wire logic   [11:0]   s_axi_control_araddr,
    input wire logic   [2:0]    s_axi_control_arprot,
    input wire logic            s_axi_control_arvalid,
    output logic                s_axi_control_arready,
    output logic       [31:0]   s_axi_control_rdata,
    output logic       [1:0]    s_axi_control_rresp,
    output logic                s_axi_control_rvalid,
    input wire logic            s_axi_control_rready,

    output logic                m_axi_keys_arid,
    output logic       [63:0]   m_axi_keys_araddr,
    output logic       [7:0]    m_axi_keys_arlen,
    output logic       [2:0]    m_axi_keys_arsize,
    output logic       [1:0]    m_axi_keys_arburst,
    output logic                m_axi_keys_arlock,
    output logic       [3:0]    m_axi_keys_arcache,
    output logic       [2:0]    m_axi_keys_arprot,
    output logic       [3:0]    m_axi_keys_arqos,
    output logic                m_axi_keys_arvalid,
    input wire logic            m_axi_keys_arready,
    input wire logic            m_axi_keys_rid,
    input wire logic   [511:0]  m_axi_keys_rdata,
    input wire logic   [1:0]    m_axi_keys_rresp,
    input wire logic            m_axi_keys_rlast,
    input wire logic            m_axi_keys_rvalid,
    output logic                m_axi_keys_rready,

    output logic                m_axi_gmem_awid,
    output logic       [63:0]   m_axi_gmem_awaddr,
    output logic       [7:0]    m_axi_gmem_awlen,
    output logic       [2:0]    m_axi_gmem_awsize,
    output logic       [1:0]    m_axi_gmem_awburst,
    output logic                m_axi_gmem_awlock,
    output logic       [3:0]    m_axi_gmem_awcache,
    output logic       [2:0]    m_axi_gmem_awprot,
    output logic       [3:0]    m_axi_gmem_awqos,
    output logic                m_axi_gmem_awvalid,
    input wire logic            m_axi_gmem_awready,
    output logic       [511:0]  m_axi_gmem_wdata,
    output logic       [63:0]   m_axi_gmem_wstrb,
    output logic                m_axi_gmem_wlast,
    output logic                m_axi_gmem_wvalid,
    input wire logic            m_axi_gmem_wready,
    input wire logic            m_axi_gmem_bid,
    input wire logic   [1:0]    m_axi_gmem_bresp,
    input wire logic            m_axi_gmem_bvalid,
    output logic                m_axi_gmem_bready,
    output logic                m_axi_gmem_arid,
    output logic       [63:0]   m_axi_gmem_araddr,
    output logic       [7:0]    m_axi_gmem_arlen,
    output logic       [2:0]    m_axi_gmem_arsize,
    output logic       [1:0]    m_axi_gmem_arburst,
    output logic                m_axi_gmem_arlock,
    output logic       [3:0]    m_axi_gmem_arcache,
    output logic       [2:0]    m_axi_gmem_arprot,
    output logic       [3:0]    m_axi_gmem_arqos,
    output logic                m_axi_gmem_arvalid,
    input wire logic            m_axi_gmem_arready,
    input wire logic            m_axi_gmem_rid,
    input wire logic   [511:0]  m_axi_gmem_rdata,
    input wire logic   [1:0]    m_axi_gmem_rresp,
    input wire logic            m_axi_gmem_rlast,
    input wire logic            m_axi_gmem_rvalid,
    output logic                m_axi_gmem_rready
);
  if (STORE_ROWS < 1024 || STORE_ROWS > 65536 || (STORE_ROWS & (STORE_ROWS - 1)) != 0) begin : g_check
    $error("nkv_kernel: STORE_ROWS must be a power of two from 1,024 to 65,536");
  end

  wire logic clk = ap_clk;
  wire logic rst_n = ap_rst_n;

  // ---- registers and run control ---------------------------------------------------------------------------------
  logic start, taken, done, done_pending, idle;
  logic [31:0] requests, failed, completed, cycles, beats, stream_cycles;
  logic [63:0] commands, keys, results;
  status_t status;
  nkv_control control (
      .clk, .rst_n,
      .awvalid(s_axi_control_awvalid), .awready(s_axi_control_awready), .awaddr(s_axi_control_awaddr),
      .wvalid(s_axi_control_wvalid), .wready(s_axi_control_wready), .wdata(s_axi_control_wdata),
      .wstrb(s_axi_control_wstrb), .bvalid(s_axi_control_bvalid), .bready(s_axi_control_bready),
      .arvalid(s_axi_control_arvalid), .arready(s_axi_control_arready), .araddr(s_axi_control_araddr),
      .rvalid(s_axi_control_rvalid), .rready(s_axi_control_rready), .rdata(s_axi_control_rdata),
      .interrupt, .start, .taken, .done, .done_pending, .idle, .requests, .commands, .keys, .results,
      .status, .failed, .completed, .cycles, .beats, .stream_cycles
  );
  assign s_axi_control_bresp = 2'b00;
  assign s_axi_control_rresp = 2'b00;

  logic core_rst_n, core_start, core_completed, beat_taken, request_begins, flush, write_error;
  status_t core_error;
  logic record_valid, record_data_valid, keys_idle, fetch_idle, writer_idle, writer_waiting;
  transfer_t record_write;
  logic [BEAT_BITS-1:0] record_data;
  logic write_ready, data_ready;
  wire logic progress = (m_axi_keys_arvalid && m_axi_keys_arready) || m_axi_keys_rvalid
      || (m_axi_gmem_arvalid && m_axi_gmem_arready) || m_axi_gmem_rvalid
      || (m_axi_gmem_awvalid && m_axi_gmem_awready) || (m_axi_gmem_wvalid && m_axi_gmem_wready) || m_axi_gmem_bvalid;
  nkv_run #(.WATCHDOG_CYCLES(WATCHDOG_CYCLES)) run (
      .clk, .rst_n, .start, .taken, .done, .done_pending, .idle, .requests, .results,
      .status, .failed, .completed, .cycles, .beats, .stream_cycles,
      .core_rst_n, .core_start, .core_error, .core_completed, .beat_taken, .request_begins,
      .flush, .masters_idle(keys_idle && fetch_idle && writer_idle),
      .waiting(!keys_idle || !fetch_idle || writer_waiting), .progress, .write_error,
      .record_valid, .record_ready(write_ready), .record_write, .record_data_valid, .record_data_ready(data_ready),
      .record_data
  );

  // ---- core --------------------------------------------------------------------------------------------------------
  logic fetch_valid, fetch_ready, command_valid, command_ready, command_error;
  logic keys_valid, keys_ready, beat_valid, beat_ready, beat_error, core_write_valid, core_data_valid;
  transfer_t fetch, keys_read, core_write;
  logic [BEAT_BITS-1:0] command_beat, beat, core_data;
  nkv_core #(.STORE_ROWS(STORE_ROWS)) core (
      .clk, .rst_n(core_rst_n), .start(core_start), .requests, .commands, .keys, .results,
      .error(core_error), .completed(core_completed), .beat_taken, .request_begins,
      .fetch_valid, .fetch_ready, .fetch, .command_valid, .command_ready, .command_beat, .command_error,
      .keys_valid, .keys_ready, .keys_read, .beat_valid, .beat_ready, .beat, .beat_error,
      .write_valid(core_write_valid), .write_ready(write_ready), .write(core_write),
      .data_valid(core_data_valid), .data_ready, .data(core_data), .writer_idle
  );

  // ---- masters -------------------------------------------------------------------------------------------------------
  nkv_axi_reader #(.FIFO_BEATS(KEY_FIFO_BEATS)) key_reader (
      .clk, .rst_n, .flush, .idle(keys_idle),
      .command_valid(keys_valid), .command_ready(keys_ready), .command(keys_read),
      .beat_valid, .beat_ready, .beat, .beat_error,
      .arvalid(m_axi_keys_arvalid), .arready(m_axi_keys_arready), .araddr(m_axi_keys_araddr),
      .arlen(m_axi_keys_arlen), .rvalid(m_axi_keys_rvalid), .rready(m_axi_keys_rready), .rdata(m_axi_keys_rdata),
      .rresp(m_axi_keys_rresp)
  );
  nkv_axi_reader #(.FIFO_BEATS(COMMAND_FIFO_BEATS)) command_reader (
      .clk, .rst_n, .flush, .idle(fetch_idle),
      .command_valid(fetch_valid), .command_ready(fetch_ready), .command(fetch),
      .beat_valid(command_valid), .beat_ready(command_ready), .beat(command_beat), .beat_error(command_error),
      .arvalid(m_axi_gmem_arvalid), .arready(m_axi_gmem_arready), .araddr(m_axi_gmem_araddr),
      .arlen(m_axi_gmem_arlen), .rvalid(m_axi_gmem_rvalid), .rready(m_axi_gmem_rready), .rdata(m_axi_gmem_rdata),
      .rresp(m_axi_gmem_rresp)
  );
  nkv_axi_writer writer (
      .clk, .rst_n, .flush, .idle(writer_idle), .waiting(writer_waiting), .error(write_error),
      .command_valid(record_valid || core_write_valid), .command_ready(write_ready),
      .command(record_valid ? record_write : core_write),
      .data_valid(record_data_valid || core_data_valid), .data_ready,
      .data(record_data_valid ? record_data : core_data),
      .awvalid(m_axi_gmem_awvalid), .awready(m_axi_gmem_awready), .awaddr(m_axi_gmem_awaddr),
      .awlen(m_axi_gmem_awlen), .wvalid(m_axi_gmem_wvalid), .wready(m_axi_gmem_wready), .wdata(m_axi_gmem_wdata),
      .wlast(m_axi_gmem_wlast), .bvalid(m_axi_gmem_bvalid), .bready(m_axi_gmem_bready), .bresp(m_axi_gmem_bresp)
  );

  // ---- what never changes ----------------------------------------------------------------------------------------------
  localparam logic [2:0] SIZE_64 = 3'd6;
  localparam logic [1:0] INCR = 2'b01;
  localparam logic [3:0] CACHE = 4'b0011;  // normal, non-cacheable, bufferable
  assign {m_axi_keys_arid, m_axi_keys_arsize, m_axi_keys_arburst, m_axi_keys_arlock, m_axi_keys_arcache,
          m_axi_keys_arprot, m_axi_keys_arqos} = {1'b0, SIZE_64, INCR, 1'b0, CACHE, 3'd0, 4'd0};
  assign {m_axi_gmem_arid, m_axi_gmem_arsize, m_axi_gmem_arburst, m_axi_gmem_arlock, m_axi_gmem_arcache,
          m_axi_gmem_arprot, m_axi_gmem_arqos} = {1'b0, SIZE_64, INCR, 1'b0, CACHE, 3'd0, 4'd0};
  assign {m_axi_gmem_awid, m_axi_gmem_awsize, m_axi_gmem_awburst, m_axi_gmem_awlock, m_axi_gmem_awcache,
          m_axi_gmem_awprot, m_axi_gmem_awqos} = {1'b0, SIZE_64, INCR, 1'b0, CACHE, 3'd0, 4'd0};
  assign m_axi_gmem_wstrb = '1;

  wire logic unused = &{1'b0, s_axi_control_awprot, s_axi_control_arprot, m_axi_keys_rid, m_axi_keys_rlast,
                        m_axi_gmem_rid, m_axi_gmem_rlast, m_axi_gmem_bid};
endmodule

`default_nettype wire
