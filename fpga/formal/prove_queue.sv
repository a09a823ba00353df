// What every queue promises, whatever is inside: entries come out in the order in which they went in, unchanged, none
// lost, none invented, for any one entry that `pick` chooses to follow; an offered entry stays until it is taken.
`default_nettype none

module prove_queue #(
    parameter int unsigned WIDTH = 4,
    parameter int unsigned CAPACITY = 4
) (
    input wire logic             clk,
    input wire logic             rst_n,
    input wire logic             in_valid,
    input wire logic             in_ready,
    input wire logic [WIDTH-1:0] in_data,
    input wire logic             out_valid,
    input wire logic             out_ready,
    input wire logic [WIDTH-1:0] out_data,
    input wire logic             pick,
    output logic [3:0]           held
);
  logic [3:0] ahead;  // entries before the followed one
  logic [WIDTH-1:0] followed, last_data;
  logic following, offered;
  wire logic enter = in_valid && in_ready;
  wire logic leave = out_valid && out_ready;

  initial begin
    held = '0;
    following = 1'b0;
    offered = 1'b0;
  end

  always_ff @(posedge clk) begin
    last_data <= out_data;
    if (!rst_n) begin
      held <= '0;
      following <= 1'b0;
      offered <= 1'b0;
    end else begin
      held <= held + 4'(enter) - 4'(leave);
      offered <= out_valid && !out_ready;
      if (enter && pick && !following) begin
        following <= 1'b1;
        followed <= in_data;
        ahead <= held - 4'(leave);
      end else if (following && leave) begin
        following <= ahead != 0;
        ahead <= ahead - 4'd1;
      end
      stays: assert (!offered || (out_valid && out_data == last_data));
      nothing_invented: assert (!out_valid || held != 0);
      nothing_lost: assert (held <= 4'(CAPACITY));
      in_order: assert (!(out_valid && following && ahead == 0) || out_data == followed);
      held_yet: assert (!following || ahead < held);
      full: cover (held == 4'(CAPACITY));
      passed: cover (following && ahead == 0 && leave);
    end
  end
endmodule

`default_nettype wire
