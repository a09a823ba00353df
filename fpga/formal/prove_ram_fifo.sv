// nkv_ram_fifo is a queue of 6 entries (prove_queue.sv), and its `count` is what it holds.
`default_nettype none

module prove_ram_fifo (
    input wire logic       clk,
    input wire logic       in_valid,
    input wire logic [3:0] in_data,
    input wire logic       out_ready,
    input wire logic       pick
);
  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  logic in_ready, out_valid;
  logic [3:0] held;
  logic [3:0] out_data;
  logic [2:0] count;
  nkv_ram_fifo #(.WIDTH(4), .DEPTH(4)) queue (
      .clk, .rst_n, .in_valid, .in_ready, .in_data, .out_valid, .out_ready, .out_data, .count
  );
  prove_queue #(.WIDTH(4), .CAPACITY(6)) properties (
      .clk, .rst_n, .in_valid, .in_ready, .in_data, .out_valid, .out_ready, .out_data, .pick, .held
  );

  // Entries that left the memory.
  wire logic [1:0] outside = 2'(queue.spare_valid) + 2'(queue.read_pending);
  always_ff @(posedge clk) begin
    if (rst_n) begin
      counted: assert (4'(count) == held);
      stored: assert (queue.stored <= 3'd4);
      // Where the followed entry lies, from the output back to the memory: with it, the properties are inductive.
      shown: assert (!properties.following || properties.ahead >= 4'(outside)
                     || (properties.ahead == 0 ? out_data : queue.read_data) == properties.followed);
      place: assert (!properties.following || properties.ahead < 4'(outside)
                     || queue.memory[2'(queue.read_pointer) + 2'(properties.ahead - 4'(outside))]
                        == properties.followed);
    end
  end
endmodule

`default_nettype wire
