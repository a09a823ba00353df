// Scores of up to two tokens for eight heads: x = sat32(((dot * m * c) >> r) + b). Fixed latency of four cycles.
`default_nettype none

module nkv_scale
  import nearkv_pkg::*;
(
    input  wire logic               clk,
    input  wire logic               rst_n,
    input  wire logic [HEADS-1:0]   heads_used,
    input  wire logic               two_slots,
    input  wire logic               dot_valid,
    input  wire op_t                dot_op,
    input  wire logic signed [23:0] dot0[HEADS],
    input  wire logic signed [23:0] dot1[HEADS],
    output logic                    c_read,
    output logic [2:0]              c_address,
    input  wire logic [15:0]        c[HEADS],
    output logic                    r_read,
    output logic [2:0]              r_address,
    input  wire logic [5:0]         r[HEADS],
    output logic                    b_read,
    output logic [2:0]              b_address,
    input  wire logic signed [31:0] b[HEADS],
    output logic                    x_valid,
    output op_t                     x_op,
    output logic signed [31:0]      x0[HEADS],
    output logic signed [31:0]      x1[HEADS]
);
  logic [4:1] valid;
  op_t ops[5];
  always_comb ops[0] = dot_op;
  always_ff @(posedge clk) begin
    for (int i = 1; i <= 4; i++) ops[i] <= ops[i-1];
    if (!rst_n) valid <= '0;
    else valid <= {valid[3:1], dot_valid};
  end
  assign c_read = dot_valid;
  assign c_address = {dot_op.coefficient, dot_op.half};
  assign r_read = valid[1];
  assign r_address = {ops[1].coefficient, ops[1].half};
  assign b_read = valid[2];
  assign b_address = {ops[2].coefficient, ops[2].half};

  logic signed [31:0] weighted[2][HEADS];  // dot * m
  logic signed [47:0] scaled[2][HEADS];  // dot * m * c
  logic signed [47:0] shifted[2][HEADS];

  function automatic logic signed [31:0] saturate(input logic signed [48:0] value);
    if (value > 49'sd2147483647) return 32'sh7fff_ffff;
    if (value < -49'sd2147483648) return 32'sh8000_0000;
    return value[31:0];
  endfunction

  always_ff @(posedge clk) begin
    for (int h = 0; h < HEADS; h++) begin
      if (heads_used[h]) begin
        if (dot_valid) weighted[0][h] <= 32'(dot0[h]) * 32'(signed'({1'b0, dot_op.m0}));
        if (valid[1]) scaled[0][h] <= 48'(weighted[0][h]) * 48'(signed'({1'b0, c[h]}));
        if (valid[2]) shifted[0][h] <= scaled[0][h] >>> r[h];
        if (valid[3]) x0[h] <= saturate(49'(shifted[0][h]) + 49'(b[h]));
        if (two_slots) begin
          if (dot_valid) weighted[1][h] <= 32'(dot1[h]) * 32'(signed'({1'b0, dot_op.m1}));
          if (valid[1]) scaled[1][h] <= 48'(weighted[1][h]) * 48'(signed'({1'b0, c[h]}));
          if (valid[2]) shifted[1][h] <= scaled[1][h] >>> r[h];
          if (valid[3]) x1[h] <= saturate(49'(shifted[1][h]) + 49'(b[h]));
        end
      end
    end
  end
  assign x_valid = valid[4];
  assign x_op = ops[4];
endmodule

`default_nettype wire
