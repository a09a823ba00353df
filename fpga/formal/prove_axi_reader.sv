// nkv_axi_reader as an AXI4 master: an address stays until it is taken; bursts are legal, cover exactly what was asked
// for, in order, and never ask for more than the FIFO has room for, whatever the memory and the consumer do.
`default_nettype none

module prove_axi_reader
  import nearkv_pkg::*;
(
    input wire logic                    clk,
    input wire logic                    flush,
    input wire logic                    command_valid,
    input wire logic [13:6]             command_address,  // four pages of addresses
    input wire logic [3:0]              command_beats,
    input wire logic                    beat_ready,
    input wire logic                    arready,
    input wire logic                    rvalid,
    input wire logic [1:0]              rresp
);
  localparam int unsigned MAX_BURST = 4, FIFO_BEATS = 8;
  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  logic idle, command_ready, beat_valid, beat_error, arvalid, rready;
  logic [BEAT_BITS-1:0] beat;
  logic [ADDRESS_BITS-1:0] araddr;
  logic [7:0] arlen;
  transfer_t command;
  assign command.address = {50'd0, command_address, 6'd0};
  assign command.beats = BEATS_BITS'(command_beats);
  nkv_axi_reader #(.FIFO_BEATS(FIFO_BEATS), .MAX_BURST(MAX_BURST)) reader (
      .clk, .rst_n, .flush, .idle, .command_valid, .command_ready, .command, .beat_valid, .beat_ready, .beat,
      .beat_error, .arvalid, .arready, .araddr, .arlen, .rvalid, .rready, .rdata('0), .rresp
  );

  logic [ADDRESS_BITS-1:0] next_address = '0, last_address = '0;
  logic [7:0] last_length = '0;
  logic [5:0] wanted = '0;  // beats of the command that no address was issued for
  logic [5:0] due = '0;  // beats that the memory owes
  logic [5:0] stored = '0;  // beats that arrived and were not taken
  logic offered = 1'b0, flushed = 1'b0;
  wire logic take_command = command_valid && command_ready;
  wire logic issued = arvalid && !offered;  // a new address shows
  wire logic address_taken = arvalid && arready;
  wire logic [5:0] beats = 6'(arlen) + 6'd1;

  always_ff @(posedge clk) begin
    assume (!rvalid || due != 0);
    assume (!command_valid || command_beats != 0);
    offered <= rst_n && arvalid && !arready;
    last_address <= araddr;
    last_length <= arlen;
    flushed <= flush;
    if (rst_n) begin
      next_address <= take_command ? command.address : issued ? araddr + {52'd0, beats, 6'd0} : next_address;
      wanted <= flush ? '0 : take_command ? 6'(command_beats) : wanted - (issued ? beats : 6'd0);
      due <= due + (address_taken ? beats : 6'd0) - 6'(rvalid && rready);
      stored <= flush ? '0 : stored + 6'(rvalid && rready) - 6'(beat_valid && beat_ready);
      address_stays: assert (!offered || (arvalid && araddr == last_address && arlen == last_length));
      always_ready: assert (rready);
      burst_length: assert (!arvalid || beats <= 6'(MAX_BURST));
      whole_beats: assert (!arvalid || araddr[5:0] == 0);
      within_a_page: assert (!arvalid || 13'(araddr[11:0]) + {1'b0, beats - 6'd1, 6'd0} < 13'd4096);
      in_order: assert (!issued || flushed || araddr == next_address);
      no_more_than_asked: assert (!issued || flushed || beats <= wanted);
      room: assert (flush || flushed || stored + due + (arvalid ? beats : 6'd0) <= 6'(FIFO_BEATS));
      idle_is_quiet: assert (!idle || (!arvalid && due == 0));
      // How the reader's own counters relate to the above: lemmas without which no invariant is found.
      flight: assert (6'(reader.in_flight) == due + (arvalid ? beats : 6'd0));
      places: assert (reader.reserved == reader.in_flight + reader.fifo_count);
      counted: assert (6'(reader.fifo_count) == stored);
      bounded: assert (reader.in_flight <= reader.reserved && reader.reserved <= 4'(FIFO_BEATS)
                      && reader.fifo.stored <= 4'(FIFO_BEATS) && due <= 6'(FIFO_BEATS));
      aligned: assert (reader.transfer.beats == 0 || reader.transfer.address[5:0] == 0);
      left: assert (reader.transfer.beats == BEATS_BITS'(flushed ? 6'd0 : wanted - (issued ? beats : 6'd0)));
      place: assert (reader.transfer.beats == 0
                     || reader.transfer.address == (issued ? araddr + {52'd0, beats, 6'd0} : next_address));
    end
  end
endmodule

`default_nettype wire
