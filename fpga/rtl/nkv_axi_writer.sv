// AXI4 write master, store and forward: a burst's address is issued only when all its data wait in the FIFO, so W
// never starves. `flush` drops commands and data that no address was issued for; `idle` means that every response came.
`default_nettype none

module nkv_axi_writer
  import nearkv_pkg::*;
#(
    parameter int unsigned FIFO_BEATS = 32,
    parameter int unsigned MAX_BURST  = 16,
    parameter int unsigned MAX_OUTSTANDING = 16
) (
    input  wire logic                    clk,
    input  wire logic                    rst_n,
    input  wire logic                    flush,
    output logic                         idle,
    output logic                         waiting,  // for the memory
    output logic                         error,  // level, until the next flush

    input  wire logic                    command_valid,
    output logic                         command_ready,
    input  wire transfer_t               command,

    input  wire logic                    data_valid,
    output logic                         data_ready,
    input  wire logic [BEAT_BITS-1:0]    data,

    output logic                         awvalid,
    input  wire logic                    awready,
    output logic [ADDRESS_BITS-1:0]      awaddr,
    output logic [7:0]                   awlen,
    output logic                         wvalid,
    input  wire logic                    wready,
    output logic [BEAT_BITS-1:0]         wdata,
    output logic                         wlast,
    input  wire logic                    bvalid,
    output logic                         bready,
    input  wire logic [1:0]              bresp
);
  localparam int unsigned CW = $clog2(FIFO_BEATS + 1);
  localparam int unsigned OW = $clog2(MAX_OUTSTANDING + 1);
  if (FIFO_BEATS < 2 * MAX_BURST) begin : g_check
    $error("nkv_axi_writer: FIFO_BEATS must hold at least two bursts");
  end
  if ((MAX_BURST & (MAX_BURST - 1)) != 0) begin : g_check2
    $error("nkv_axi_writer: MAX_BURST must be a power of two");
  end

  transfer_t transfer;
  logic [4:0] burst, to_boundary;
  logic [CW-1:0] stored;  // beats in the FIFO
  logic [CW-1:0] promised;  // of these, beats whose address was issued
  logic [OW-1:0] outstanding;  // bursts without a response
  logic length_valid, length_ready, length_pop;
  logic [3:0] length, sent;
  logic fifo_valid, fifo_reset_n;

  always_comb begin
    to_boundary = 5'(MAX_BURST) - (5'(transfer.address[9:6]) & 5'(MAX_BURST - 1));
    burst = (transfer.beats < BEATS_BITS'(to_boundary)) ? 5'(transfer.beats) : to_boundary;
  end

  wire logic issue = transfer.beats != 0 && stored - promised >= CW'(burst) && (!awvalid || awready)
                     && outstanding != OW'(MAX_OUTSTANDING) && length_ready && !flush;
  wire logic send = wvalid && wready;
  wire logic respond = bvalid && bready;

  assign command_ready = transfer.beats == 0 && !flush;
  assign bready = 1'b1;
  assign idle = transfer.beats == 0 && !waiting && (flush || stored == 0);
  assign waiting = awvalid || outstanding != 0;
  assign wvalid = fifo_valid && length_valid;
  assign wlast = sent == length;
  assign length_pop = send && wlast;

  always_ff @(posedge clk) begin
    if (issue) begin
      awaddr <= transfer.address;
      awlen  <= 8'(burst - 5'd1);
      transfer.address <= transfer.address + {53'd0, burst, 6'd0};
    end else if (command_valid && command_ready) begin
      transfer.address <= command.address;
    end
    if (!rst_n) begin
      awvalid <= 1'b0;
      transfer.beats <= '0;
      promised <= '0;
      outstanding <= '0;
      sent <= '0;
      error <= 1'b0;
    end else begin
      awvalid <= issue || (awvalid && !awready);
      if (flush) transfer.beats <= '0;
      else if (issue) transfer.beats <= transfer.beats - BEATS_BITS'(burst);
      else if (command_valid && command_ready) transfer.beats <= command.beats;
      promised <= promised + (issue ? CW'(burst) : '0) - CW'(send);
      outstanding <= outstanding + OW'(issue) - OW'(respond);
      if (send) sent <= wlast ? '0 : sent + 1'b1;
      error <= !flush && (error || (respond && bresp[1]));
    end
  end

  nkv_fifo #(
      .WIDTH(BEAT_BITS),
      .DEPTH(FIFO_BEATS)
  ) data_fifo (
      .clk,
      .rst_n(fifo_reset_n),
      .in_valid(data_valid && !flush),
      .in_ready(data_ready),
      .in_data(data),
      .out_valid(fifo_valid),
      .out_ready(send),
      .out_data(wdata),
      .count(stored)
  );
  // In a flush, data go only once everything promised has been sent.
  assign fifo_reset_n = rst_n && !(flush && promised == 0);

  logic [$clog2(MAX_OUTSTANDING+1)-1:0] lengths;
  nkv_fifo #(
      .WIDTH(4),
      .DEPTH(MAX_OUTSTANDING)
  ) length_fifo (
      .clk,
      .rst_n,
      .in_valid(issue),
      .in_ready(length_ready),
      .in_data(4'(burst - 5'd1)),
      .out_valid(length_valid),
      .out_ready(length_pop),
      .out_data(length),
      .count(lengths)
  );
  wire logic unused = &{1'b0, lengths, bresp[0], command.address[5:0]};
endmodule

`default_nettype wire
