// AXI4 read master. Transfers become INCR bursts that do not cross a page. An address is issued only when its whole
// burst has room in the FIFO, so rready never drops and a slow consumer cannot block the interconnect.
// `flush` abandons the current transfer: nothing new is issued, what still arrives is dropped, `idle` tells the end.
`default_nettype none

module nkv_axi_reader
  import nearkv_pkg::*;
#(
    parameter int unsigned FIFO_BEATS = 512,
    parameter int unsigned MAX_BURST  = 64
) (
    input  wire logic                    clk,
    input  wire logic                    rst_n,
    input  wire logic                    flush,
    output logic                         idle,

    input  wire logic                    command_valid,
    output logic                         command_ready,
    input  wire transfer_t               command,

    output logic                         beat_valid,
    input  wire logic                    beat_ready,
    output logic [BEAT_BITS-1:0]         beat,
    output logic                         beat_error,

    output logic                         arvalid,
    input  wire logic                    arready,
    output logic [ADDRESS_BITS-1:0]      araddr,
    output logic [7:0]                   arlen,
    input  wire logic                    rvalid,
    output logic                         rready,
    input  wire logic [BEAT_BITS-1:0]    rdata,
    input  wire logic [1:0]              rresp
);
  localparam int unsigned PAGE_BEATS = PAGE_BYTES / BEAT_BYTES;
  localparam int unsigned CW = $clog2(FIFO_BEATS + 3);
  if (MAX_BURST > PAGE_BEATS || (MAX_BURST & (MAX_BURST - 1)) != 0) begin : g_check
    $error("nkv_axi_reader: MAX_BURST must be a power of two and fit a page");
  end
  if (FIFO_BEATS < 2 * MAX_BURST) begin : g_check2
    $error("nkv_axi_reader: FIFO_BEATS must hold at least two bursts");
  end

  transfer_t transfer;  // what is left to issue
  logic [CW-1:0] reserved;  // FIFO places taken: beats requested or stored
  logic [CW-1:0] in_flight;  // beats requested and not yet received
  logic [6:0] burst;
  logic [6:0] to_boundary;

  // A burst ends at a multiple of MAX_BURST beats, which is also a page boundary or lies within a page.
  always_comb begin
    to_boundary = 7'(MAX_BURST) - (7'(transfer.address[11:6]) & 7'(MAX_BURST - 1));
    burst = (transfer.beats < BEATS_BITS'(to_boundary)) ? 7'(transfer.beats) : to_boundary;
  end

  wire logic room = CW'(FIFO_BEATS) - reserved >= CW'(burst);
  wire logic issue = transfer.beats != 0 && room && (!arvalid || arready) && !flush;
  wire logic receive = rvalid && rready;
  wire logic take = beat_valid && beat_ready;

  assign command_ready = transfer.beats == 0 && !flush;
  assign rready = 1'b1;
  assign idle = !arvalid && in_flight == 0;

  always_ff @(posedge clk) begin
    if (issue) begin
      araddr <= transfer.address;
      arlen  <= 8'(burst - 7'd1);
      transfer.address <= transfer.address + {51'd0, burst, 6'd0};
    end else if (command_valid && command_ready) begin
      transfer.address <= command.address;
    end
    if (!rst_n) begin
      arvalid <= 1'b0;
      transfer.beats <= '0;
      reserved <= '0;
      in_flight <= '0;
    end else begin
      arvalid <= issue || (arvalid && !arready);
      if (flush) transfer.beats <= '0;
      else if (issue) transfer.beats <= transfer.beats - BEATS_BITS'(burst);
      else if (command_valid && command_ready) transfer.beats <= command.beats;
      in_flight <= in_flight + (issue ? CW'(burst) : '0) - CW'(receive);
      reserved <= flush ? in_flight - CW'(receive) : reserved + (issue ? CW'(burst) : '0) - CW'(take);
    end
  end

  logic fifo_ready;
  logic [CW-1:0] fifo_count;
  nkv_ram_fifo #(
      .WIDTH(BEAT_BITS + 1),
      .DEPTH(FIFO_BEATS)
  ) fifo (
      .clk,
      .rst_n(rst_n && !flush),
      .in_valid(receive && !flush),
      .in_ready(fifo_ready),
      .in_data({rresp[1], rdata}),
      .out_valid(beat_valid),
      .out_ready(beat_ready),
      .out_data({beat_error, beat}),
      .count(fifo_count)
  );
  wire logic unused = &{1'b0, fifo_ready, fifo_count, rresp[0], command.address[5:0]};
endmodule

`default_nettype wire
