// Queries of two requests, one streaming and one being fetched, in distributed RAM: for each head a word of 64 even
// and 64 odd values per chunk of the row. A read gives all eight heads of one half, and is registered.
`default_nettype none

module nkv_query_store
  import nearkv_pkg::*;
(
    input  wire logic                   clk,
    input  wire logic                   write,
    input  wire logic                   write_bank,
    input  wire logic [HEAD_BITS-1:0]   write_head,
    input  wire logic [1:0]             write_chunk,
    input  wire logic [1:0]             lane_halves,
    input  wire logic [LANES-1:0][7:0]  write_even,
    input  wire logic [LANES-1:0][7:0]  write_odd,

    input  wire logic                   read,
    input  wire logic                   read_bank,
    input  wire logic                   read_half,
    input  wire logic [1:0]             read_chunk,
    output logic [LANES*8-1:0]          even[HEADS],
    output logic [LANES*8-1:0]          odd[HEADS]
);
  localparam int unsigned HALF = LANES * 8 / 2;
  wire logic [3:0] write_address = {write_bank, write_head[3], write_chunk};
  wire logic [3:0] read_address = {read_bank, read_half, read_chunk};

  for (genvar h = 0; h < HEADS; h++) begin : g_head
    for (genvar side = 0; side < 2; side++) begin : g_side
      (* ram_style = "distributed" *) logic [HALF-1:0] even_memory[16];
      (* ram_style = "distributed" *) logic [HALF-1:0] odd_memory [16];
      wire logic enable = write && write_head[2:0] == 3'(h) && lane_halves[side];
      always_ff @(posedge clk) begin
        if (enable) begin
          even_memory[write_address] <= write_even[side*LANES/2+:LANES/2];
          odd_memory[write_address]  <= write_odd[side*LANES/2+:LANES/2];
        end
        if (read) begin
          even[h][side*HALF+:HALF] <= even_memory[read_address];
          odd[h][side*HALF+:HALF]  <= odd_memory[read_address];
        end
      end
    end
  end
endmodule

`default_nettype wire
