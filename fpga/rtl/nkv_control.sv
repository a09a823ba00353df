// AXI4-Lite registers with Vitis's kernel layout: ap_ctrl_chain, interrupts, four arguments, read-only status.
`default_nettype none

module nkv_control
  import nearkv_pkg::*;
(
    input  wire logic          clk,
    input  wire logic          rst_n,

    input  wire logic          awvalid,
    output logic               awready,
    input  wire logic [11:0]   awaddr,
    input  wire logic          wvalid,
    output logic               wready,
    input  wire logic [31:0]   wdata,
    input  wire logic [3:0]    wstrb,
    output logic               bvalid,
    input  wire logic          bready,
    input  wire logic          arvalid,
    output logic               arready,
    input  wire logic [11:0]   araddr,
    output logic               rvalid,
    input  wire logic          rready,
    output logic [31:0]        rdata,
    output logic               interrupt,

    output logic               start,  // level, until taken
    input  wire logic          taken,  // the kernel accepted the start (ap_ready)
    input  wire logic          done,   // one cycle: the run is complete
    output logic               done_pending,  // done was not yet acknowledged by ap_continue
    input  wire logic          idle,

    output logic [31:0]        requests,
    output logic [63:0]        commands,
    output logic [63:0]        keys,
    output logic [63:0]        results,

    input  wire status_t       status,
    input  wire logic [31:0]   failed,
    input  wire logic [31:0]   completed,
    input  wire logic [31:0]   cycles,
    input  wire logic [31:0]   beats,
    input  wire logic [31:0]   stream_cycles
);
  localparam logic [11:0] CONTROL = 12'h000, GIE = 12'h004, IER = 12'h008, ISR = 12'h00c;
  localparam logic [11:0] REQUESTS = 12'h010, COMMANDS = 12'h018, KEYS = 12'h024, RESULTS = 12'h030;
  localparam logic [11:0] STATUS = 12'h040, FAILED = 12'h044, COMPLETED = 12'h048;
  localparam logic [11:0] CYCLES = 12'h04c, BEATS = 12'h050, STREAM_CYCLES = 12'h054;

  logic ready_seen;  // ap_ready since the last read of the control register
  logic gie;
  logic [1:0] ier, isr;
  logic [31:0] mask;

  // A write needs address and data together and no response in the way; so does the single outstanding read.
  wire logic write = awvalid && wvalid && (!bvalid || bready);
  wire logic read = arvalid && (!rvalid || rready);
  wire logic [11:0] write_address = {awaddr[11:2], 2'b00};
  wire logic [11:0] read_address = {araddr[11:2], 2'b00};
  wire logic write_control = write && write_address == CONTROL && wstrb[0];
  assign awready = write;
  assign wready = write;
  assign arready = read;
  assign mask = {{8{wstrb[3]}}, {8{wstrb[2]}}, {8{wstrb[1]}}, {8{wstrb[0]}}};
  assign interrupt = gie && isr != 0;

  function automatic logic [31:0] merge(input logic [31:0] old);
    return (old & ~mask) | (wdata & mask);
  endfunction

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      bvalid <= 1'b0;
      rvalid <= 1'b0;
      start <= 1'b0;
      done_pending <= 1'b0;
      ready_seen <= 1'b0;
      gie <= 1'b0;
      ier <= '0;
      isr <= '0;
      requests <= '0;
      commands <= '0;
      keys <= '0;
      results <= '0;
    end else begin
      bvalid <= write || (bvalid && !bready);
      rvalid <= read || (rvalid && !rready);
      start <= (start && !taken) || (write_control && wdata[0]);
      done_pending <= done || (done_pending && !(write_control && wdata[4]));
      ready_seen <= taken || (ready_seen && !(read && read_address == CONTROL));
      if (write) begin
        case (write_address)
          GIE: if (wstrb[0]) gie <= wdata[0];
          IER: if (wstrb[0]) ier <= wdata[1:0];
          REQUESTS: requests <= merge(requests);
          COMMANDS: commands[31:0] <= merge(commands[31:0]);
          COMMANDS + 12'd4: commands[63:32] <= merge(commands[63:32]);
          KEYS: keys[31:0] <= merge(keys[31:0]);
          KEYS + 12'd4: keys[63:32] <= merge(keys[63:32]);
          RESULTS: results[31:0] <= merge(results[31:0]);
          RESULTS + 12'd4: results[63:32] <= merge(results[63:32]);
          default: ;
        endcase
      end
      isr <= (isr ^ ((write && write_address == ISR && wstrb[0]) ? wdata[1:0] : 2'b00))
             | (ier & {taken, done});
    end
    if (read) begin
      case (read_address)
        CONTROL: rdata <= {27'd0, 1'b0, ready_seen, idle, done_pending, start};
        GIE: rdata <= {31'd0, gie};
        IER: rdata <= {30'd0, ier};
        ISR: rdata <= {30'd0, isr};
        REQUESTS: rdata <= requests;
        COMMANDS: rdata <= commands[31:0];
        COMMANDS + 12'd4: rdata <= commands[63:32];
        KEYS: rdata <= keys[31:0];
        KEYS + 12'd4: rdata <= keys[63:32];
        RESULTS: rdata <= results[31:0];
        RESULTS + 12'd4: rdata <= results[63:32];
        STATUS: rdata <= {28'd0, status};
        FAILED: rdata <= failed;
        COMPLETED: rdata <= completed;
        CYCLES: rdata <= cycles;
        BEATS: rdata <= beats;
        STREAM_CYCLES: rdata <= stream_cycles;
        default: rdata <= '0;
      endcase
    end
  end
  wire logic unused = &{1'b0, awaddr[1:0], araddr[1:0]};
endmodule

`default_nettype wire
