// All log-masses of a request, eight heads a row, in UltraRAM: WAYS banks, written one row and read one row of every
// bank at a time. A read answers after READ_LATENCY cycles, whatever follows.
`default_nettype none

module nkv_store
  import nearkv_pkg::*;
#(
    parameter int unsigned ROWS = DEFAULT_STORE_ROWS,
    parameter int unsigned READ_LATENCY = 3
) (
    input  wire logic                          clk,
    input  wire logic                          write,
    input  wire logic [WAY_BITS-1:0]           write_bank,
    input  wire logic [$clog2(ROWS/WAYS)-1:0]  write_row,
    input  wire logic [HEADS*32-1:0]           write_data,
    input  wire logic                          read,
    input  wire logic [$clog2(ROWS/WAYS)-1:0]  read_row,
    output logic [WAYS-1:0][HEADS*32-1:0]      read_data
);
  if (READ_LATENCY < 1) begin : g_check
    $error("nkv_store: READ_LATENCY must be at least 1");
  end
  logic [READ_LATENCY-1:0] valid;  // stages to move
  always_ff @(posedge clk) valid <= READ_LATENCY'({valid, read});
  for (genvar bank = 0; bank < WAYS; bank++) begin : g_bank
    (* ram_style = "ultra" *) logic [HEADS*32-1:0] memory[ROWS/WAYS];
    logic [READ_LATENCY-1:0][HEADS*32-1:0] stage;  // packed: stage 0 is the memory's own output register
    always_ff @(posedge clk) begin
      if (write && write_bank == WAY_BITS'(bank)) memory[write_row] <= write_data;
      if (read) stage[0] <= memory[read_row];
      for (int i = 1; i < READ_LATENCY; i++) if (valid[i-1]) stage[i] <= stage[i-1];
    end
    assign read_data[bank] = stage[READ_LATENCY-1];
  end
  wire logic unused = valid[READ_LATENCY-1];
endmodule

`default_nettype wire
