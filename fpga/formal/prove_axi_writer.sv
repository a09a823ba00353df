// nkv_axi_writer as an AXI4 master: addresses and data stay until they are taken, bursts are legal, and every burst's
// data follow its address at once and end with wlast, whatever the memory and the producer do.
`default_nettype none

module prove_axi_writer
  import nearkv_pkg::*;
(
    input wire logic                    clk,
    input wire logic                    flush,
    input wire logic                    command_valid,
    input wire logic [13:6]             command_address,  // four pages of addresses
    input wire logic [3:0]              command_beats,
    input wire logic                    data_valid,
    input wire logic [7:0]              data,
    input wire logic                    awready,
    input wire logic                    wready,
    input wire logic                    bvalid,
    input wire logic [1:0]              bresp
);
  localparam int unsigned MAX_BURST = 4, FIFO_BEATS = 8, MAX_OUTSTANDING = 2;
  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  logic idle, waiting, error, command_ready, data_ready, awvalid, wvalid, wlast, bready;
  logic [ADDRESS_BITS-1:0] awaddr;
  logic [7:0] awlen;
  logic [BEAT_BITS-1:0] wdata;
  transfer_t command;
  assign command.address = {50'd0, command_address, 6'd0};
  assign command.beats = BEATS_BITS'(command_beats);
  nkv_axi_writer #(.FIFO_BEATS(FIFO_BEATS), .MAX_BURST(MAX_BURST), .MAX_OUTSTANDING(MAX_OUTSTANDING)) writer (
      .clk, .rst_n, .flush, .idle, .waiting, .error, .command_valid, .command_ready, .command, .data_valid, .data_ready,
      .data(BEAT_BITS'(data)), .awvalid, .awready, .awaddr, .awlen, .wvalid, .wready, .wdata, .wlast, .bvalid, .bready,
      .bresp
  );

  logic [ADDRESS_BITS-1:0] last_address = '0;
  logic [7:0] last_length = '0;
  logic [7:0] last_data = '0;
  logic last_last = 1'b0, address_offered = 1'b0, data_offered = 1'b0;
  logic [5:0] promised = '0;  // beats of addresses that showed, not yet sent
  logic [5:0] bursts = '0, ended = '0, answered = '0;
  wire logic issued = awvalid && !address_offered;
  wire logic sent = wvalid && wready;
  wire logic [5:0] beats = 6'(awlen) + 6'd1;
  wire logic [5:0] open = promised + (issued ? beats : 6'd0);

  // Lengths of the oldest burst with unsent data and of the one after it.
  wire logic [5:0] head = 6'(writer.length) + 6'd1;
  wire logic [5:0] next = 6'(writer.length_fifo.memory[!writer.length_fifo.read_pointer[0]]) + 6'd1;

  always_ff @(posedge clk) begin
    assume (!bvalid || answered != ended);
    assume (!command_valid || command_beats != 0);
    address_offered <= rst_n && awvalid && !awready;
    data_offered <= rst_n && wvalid && !wready;
    last_address <= awaddr;
    last_length <= awlen;
    last_data <= wdata[7:0];
    last_last <= wlast;
    if (rst_n) begin
      promised <= open - 6'(sent);
      bursts <= bursts + 6'(issued);
      ended <= ended + 6'(sent && wlast);
      answered <= answered + 6'(bvalid && bready);
      address_stays: assert (!address_offered || (awvalid && awaddr == last_address && awlen == last_length));
      data_stay: assert (!data_offered || (wvalid && wdata[7:0] == last_data && wlast == last_last));
      always_ready: assert (bready);
      burst_length: assert (!awvalid || beats <= 6'(MAX_BURST));
      whole_beats: assert (!awvalid || awaddr[5:0] == 0);
      within_a_page: assert (!awvalid || 13'(awaddr[11:0]) + {1'b0, beats - 6'd1, 6'd0} < 13'd4096);
      data_of_a_burst: assert (!wvalid || open != 0);
      data_never_starve: assert (open == 0 || wvalid);
      last_ends_a_burst: assert (!(sent && wlast) || ended != bursts + 6'(issued));
      outstanding: assert (bursts + 6'(issued) - answered <= 6'(MAX_OUTSTANDING));
      idle_is_quiet: assert (!idle || (!awvalid && answered == bursts));
      // How the writer's own state relates to the above: lemmas that shorten the search.
      counted: assert (6'(writer.promised) == open);
      owned: assert (writer.promised <= writer.stored && writer.stored <= 4'(FIFO_BEATS));
      lengths: assert (open + 6'(writer.sent)
                       == (writer.lengths == 0 ? 6'd0 : writer.lengths == 1 ? head : head + next));
      not_over: assert (6'(writer.sent) < (writer.lengths == 0 ? 6'd1 : head));
      short: assert (writer.lengths == 0 || (head <= 6'(MAX_BURST) && (writer.lengths == 1 || next <= 6'(MAX_BURST))));
      unsent: assert (6'(writer.lengths) == bursts + 6'(issued) - ended);
      unanswered: assert (6'(writer.outstanding) == bursts + 6'(issued) - answered);
      sent_first: assert (ended - answered <= 6'(writer.outstanding));
      aligned: assert (writer.transfer.beats == 0 || writer.transfer.address[5:0] == 0);
    end
  end
endmodule

`default_nettype wire
