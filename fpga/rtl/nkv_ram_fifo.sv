// Deep FIFO in block RAM: a synchronous read feeds a two-entry output stage, so one entry a cycle flows.
// `count` is what the RAM and the output stage hold together; capacity is DEPTH + 2.
`default_nettype none

module nkv_ram_fifo #(
    parameter int unsigned WIDTH = 64,
    parameter int unsigned DEPTH = 512
) (
    input  wire logic                       clk,
    input  wire logic                       rst_n,
    input  wire logic                       in_valid,
    output logic                            in_ready,
    input  wire logic [WIDTH-1:0]           in_data,
    output logic                            out_valid,
    input  wire logic                       out_ready,
    output logic [WIDTH-1:0]                out_data,
    output logic [$clog2(DEPTH+3)-1:0]      count
);
  localparam int unsigned AW = $clog2(DEPTH);
  localparam int unsigned CW = $clog2(DEPTH + 3);
  if (DEPTH < 4 || (DEPTH & (DEPTH - 1)) != 0) begin : g_check
    $error("nkv_ram_fifo: DEPTH must be a power of two, at least 4");
  end

  (* ram_style = "block" *) logic [WIDTH-1:0] memory[DEPTH];
  logic [AW:0] write_pointer, read_pointer;
  logic [WIDTH-1:0] read_data;
  logic read_pending;  // read_data holds an entry that the output stage has not taken yet
  logic spare_valid;
  logic [WIDTH-1:0] spare;

  wire logic [AW:0] stored = write_pointer - read_pointer;
  wire logic pop = out_valid && out_ready;

  assign in_ready  = stored != (AW + 1)'(DEPTH);
  assign out_valid = spare_valid || read_pending;
  assign out_data  = spare_valid ? spare : read_data;
  assign count     = CW'(stored) + CW'(spare_valid) + CW'(read_pending);

  // A read may start when its entry will find room: in read_data, or in spare once read_data has moved on.
  wire logic read = stored != 0 && (pop || !(spare_valid && read_pending));

  always_ff @(posedge clk) begin
    if (in_valid && in_ready) memory[write_pointer[AW-1:0]] <= in_data;
    if (read) read_data <= memory[read_pointer[AW-1:0]];
    // read_data is overwritten only when it is empty, leaves now, or moves to spare.
    if (read_pending && (spare_valid ? pop : !pop)) spare <= read_data;
    if (!rst_n) begin
      write_pointer <= '0;
      read_pointer  <= '0;
      read_pending  <= 1'b0;
      spare_valid   <= 1'b0;
    end else begin
      if (in_valid && in_ready) write_pointer <= write_pointer + 1'b1;
      if (read) read_pointer <= read_pointer + 1'b1;
      case ({spare_valid, read_pending})
        2'b00:   read_pending <= read;
        2'b01: begin
          read_pending <= read;
          spare_valid  <= !pop;
        end
        2'b10: begin
          read_pending <= read;
          spare_valid  <= !pop;
        end
        default: begin  // both full: a pop moves read_data to spare
          read_pending <= pop ? read : 1'b1;
        end
      endcase
    end
  end
endmodule

`default_nettype wire
