// nkv_skid is a queue of 2 entries (prove_queue.sv).
`default_nettype none

module prove_skid (
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

  nkv_skid #(.WIDTH(4)) queue (
      .clk, .rst_n, .in_valid, .in_ready, .in_data, .out_valid, .out_ready, .out_data
  );
  prove_queue #(.WIDTH(4), .CAPACITY(2)) properties (
      .clk, .rst_n, .in_valid, .in_ready, .in_data, .out_valid, .out_ready, .out_data, .pick, .held
  );

  always_ff @(posedge clk) begin
    if (rst_n) begin
      // Where the followed entry lies: with it, the properties are inductive.
      counted: assert (held == 4'(out_valid) + 4'(queue.spare_valid));
      shown: assert (!queue.spare_valid || out_valid);
      place: assert (!properties.following || (properties.ahead == 0 ? out_data : queue.spare) == properties.followed);
    end
  end
endmodule

`default_nettype wire
