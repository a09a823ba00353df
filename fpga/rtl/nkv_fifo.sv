// Synchronous FIFO: the oldest entry shows at the output while out_valid; `count` is what it holds.
// The memory is read asynchronously, so it becomes distributed RAM: use nkv_ram_fifo for deep ones.
`default_nettype none

module nkv_fifo #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 16
) (
    input  wire logic                     clk,
    input  wire logic                     rst_n,
    input  wire logic                     in_valid,
    output logic                          in_ready,
    input  wire logic [WIDTH-1:0]         in_data,
    output logic                          out_valid,
    input  wire logic                     out_ready,
    output logic [WIDTH-1:0]              out_data,
    output logic [$clog2(DEPTH+1)-1:0]    count
);
  localparam int unsigned AW = $clog2(DEPTH);
  if (DEPTH < 2 || (DEPTH & (DEPTH - 1)) != 0) begin : g_check
    $error("nkv_fifo: DEPTH must be a power of two, at least 2");
  end

  logic [WIDTH-1:0] memory[DEPTH];
  logic [AW:0] write_pointer, read_pointer;

  assign count = write_pointer - read_pointer;
  assign in_ready = count != ($clog2(DEPTH + 1))'(DEPTH);
  assign out_valid = count != 0;
  assign out_data = memory[read_pointer[AW-1:0]];

  always_ff @(posedge clk) begin
    if (in_valid && in_ready) memory[write_pointer[AW-1:0]] <= in_data;
    if (!rst_n) begin
      write_pointer <= '0;
      read_pointer  <= '0;
    end else begin
      if (in_valid && in_ready) write_pointer <= write_pointer + 1'b1;
      if (out_valid && out_ready) read_pointer <= read_pointer + 1'b1;
    end
  end
endmodule

`default_nettype wire
