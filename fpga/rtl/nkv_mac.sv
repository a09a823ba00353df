// Dot products of one beat with up to eight query heads: packed multiplies, adder tree, rows shorter or longer than a
// beat. Fixed latency, never stalls. Rows of 16 or 32 bytes give two tokens a pass (slots 0 and 1), longer rows one.
`default_nettype none

module nkv_mac
  import nearkv_pkg::*;
(
    input  wire logic                  clk,
    input  wire logic                  rst_n,
    input  wire logic                  int4,
    input  wire logic [2:0]            row,        // log2 of the row's bytes / 16
    input  wire logic [PAIRS-1:0]      pairs_used, // pairs of heads without a head are left alone (power)
    input  wire logic                  op_valid,
    input  wire op_t                   op,
    input  wire logic [BEAT_BITS-1:0]  beat,
    input  wire logic [LANES*8-1:0]    query_even[HEADS],  // one cycle after op
    input  wire logic [LANES*8-1:0]    query_odd [HEADS],
    output logic                       dot_valid,
    output op_t                        dot_op,
    output logic signed [23:0]         dot0[HEADS],
    output logic signed [23:0]         dot1[HEADS]
);
  localparam int unsigned QUADS = LANES / 4;
  localparam int unsigned DEPTH = 6;

  logic [DEPTH:1] valid;
  op_t ops[DEPTH+1];
  always_comb ops[0] = op;
  always_ff @(posedge clk) begin
    for (int i = 1; i <= DEPTH; i++) ops[i] <= ops[i-1];
    if (!rst_n) valid <= '0;
    else valid <= {valid[DEPTH-1:1], op_valid};
  end

  // ---- 1: operands -------------------------------------------------------------------------------------------
  logic [LANES-1:0][7:0] key_even;
  logic [LANES-1:0][3:0] key_odd;
  nkv_unpack unpack (
      .clk,
      .enable(op_valid),
      .int4,
      .beat,
      .even(key_even),
      .odd(key_odd)
  );

  // ---- 2: products, 3: sums of four lanes, still packed ----------------------------------------------------------
  logic [35:0] quad_sum[PAIRS][QUADS];
  for (genvar p = 0; p < PAIRS; p++) begin : g_pair
    for (genvar quad = 0; quad < QUADS; quad++) begin : g_quad
      nkv_quad quad_products (
          .clk,
          .enable({valid[2], valid[1]} & {2{pairs_used[p]}}),
          .int4,
          .key_even(key_even[quad*4+:4]),
          .key_odd(key_odd[quad*4+:4]),
          .even_high(query_even[2*p+1][quad*32+:32]),
          .even_low(query_even[2*p][quad*32+:32]),
          .odd_high(query_odd[2*p+1][quad*32+:32]),
          .odd_low(query_odd[2*p][quad*32+:32]),
          .sum(quad_sum[p][quad])
      );
    end
  end

  // ---- 4: sums of 16 lanes per head ------------------------------------------------------------------------------
  logic signed [19:0] quarter[HEADS][4];
  always_ff @(posedge clk) begin
    for (int p = 0; p < PAIRS; p++) begin
      if (valid[3] && pairs_used[p]) begin
        for (int i = 0; i < 4; i++) begin
          logic signed [19:0] low, high;
          low = '0;
          high = '0;
          for (int j = 0; j < 4; j++) begin
            low  = low + 20'(signed'(quad_sum[p][4*i+j][17:0]));
            high = high + 20'(signed'(quad_sum[p][4*i+j][35:18])) + 20'(quad_sum[p][4*i+j][17]);
          end
          quarter[2*p][i] <= low;
          quarter[2*p+1][i] <= high;
        end
      end
    end
  end

  // ---- 5: slots, 6: rows of several beats --------------------------------------------------------------------------
  logic signed [21:0] slot0[HEADS], slot1[HEADS];
  logic signed [23:0] partial[2][HEADS];  // the two halves of the heads take turns
  always_ff @(posedge clk) begin
    for (int h = 0; h < HEADS; h++) begin
      if (valid[4] && pairs_used[h/2]) begin
        if (row == 3'd0) begin
          slot0[h] <= 22'(ops[4].phase ? quarter[h][2] : quarter[h][0]);
          slot1[h] <= 22'(ops[4].phase ? quarter[h][3] : quarter[h][1]);
        end else begin
          slot0[h] <= 22'(quarter[h][0]) + 22'(quarter[h][1])
                      + ((row == 3'd1) ? 22'sd0 : 22'(quarter[h][2]) + 22'(quarter[h][3]));
          slot1[h] <= 22'(quarter[h][2]) + 22'(quarter[h][3]);
        end
      end
      if (valid[5] && pairs_used[h/2]) begin
        logic signed [23:0] sum;
        sum = 24'(slot0[h]) + (ops[5].first_part ? 24'sd0 : partial[ops[5].half][h]);
        partial[ops[5].half][h] <= sum;
        dot0[h] <= sum;
        dot1[h] <= 24'(slot1[h]);
      end
    end
  end

  assign dot_valid = valid[6] && ops[6].last_part;
  assign dot_op = ops[6];
endmodule

`default_nettype wire
