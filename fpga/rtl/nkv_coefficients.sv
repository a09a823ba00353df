// Scale, shift and bias of the last four runs, per head: the sequencer is at most three blocks ahead of the scaler.
// Heads 0..7 and 8..15 lie in memories of their own, since a run writes all of them at once; each of the three
// coefficients is read in its own pipeline stage of the scaler.
`default_nettype none

module nkv_coefficients
  import nearkv_pkg::*;
(
    input  wire logic               clk,
    input  wire logic               write,
    input  wire logic [1:0]         write_entry,
    input  wire run_t               run,
    input  wire logic               c_read,
    input  wire logic [2:0]         c_address,  // {entry, half}
    output logic [15:0]             c[HEADS],
    input  wire logic               r_read,
    input  wire logic [2:0]         r_address,
    output logic [5:0]              r[HEADS],
    input  wire logic               b_read,
    input  wire logic [2:0]         b_address,
    output logic signed [31:0]      b[HEADS]
);
  for (genvar h = 0; h < HEADS; h++) begin : g_head
    (* ram_style = "distributed" *) logic [53:0] low[4];
    (* ram_style = "distributed" *) logic [53:0] high[4];
    wire logic [53:0] c_entry = c_address[0] ? high[c_address[2:1]] : low[c_address[2:1]];
    wire logic [53:0] r_entry = r_address[0] ? high[r_address[2:1]] : low[r_address[2:1]];
    wire logic [53:0] b_entry = b_address[0] ? high[b_address[2:1]] : low[b_address[2:1]];
    always_ff @(posedge clk) begin
      if (write) begin
        low[write_entry]  <= {run.b[h], run.c[h], run.r[h]};
        high[write_entry] <= {run.b[h+HEADS], run.c[h+HEADS], run.r[h+HEADS]};
      end
      if (c_read) c[h] <= c_entry[21:6];
      if (r_read) r[h] <= r_entry[5:0];
      if (b_read) b[h] <= b_entry[53:22];
    end
    wire logic unused = &{1'b0, c_entry, r_entry, b_entry, run};
  end
endmodule

`default_nettype wire
