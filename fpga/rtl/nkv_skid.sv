// Skid buffer: registers both directions of a ready/valid link without losing throughput.
`default_nettype none

module nkv_skid #(
    parameter int unsigned WIDTH = 8
) (
    input  wire logic             clk,
    input  wire logic             rst_n,
    input  wire logic             in_valid,
    output logic                  in_ready,
    input  wire logic [WIDTH-1:0] in_data,
    output logic                  out_valid,
    input  wire logic             out_ready,
    output logic [WIDTH-1:0]      out_data
);
  logic spare_valid;
  logic [WIDTH-1:0] spare;

  assign in_ready = !spare_valid;

  always_ff @(posedge clk) begin
    if (in_valid && in_ready) spare <= in_data;
    if (!out_valid || out_ready) out_data <= spare_valid ? spare : in_data;
    if (!rst_n) begin
      out_valid   <= 1'b0;
      spare_valid <= 1'b0;
    end else if (!out_valid || out_ready) begin
      out_valid   <= spare_valid || in_valid;
      spare_valid <= 1'b0;
    end else if (in_valid && in_ready) begin
      spare_valid <= 1'b1;
    end
  end
endmodule

`default_nettype wire
