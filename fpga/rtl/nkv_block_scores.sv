// Keeps the scores of up to four blocks until their maximum is known, and finds the maximum. A job is handed on when a
// half of a block (eight heads) is complete. The memory has a synchronous read port for the block unit.
`default_nettype none

module nkv_block_scores
  import nearkv_pkg::*;
(
    input  wire logic               clk,
    input  wire logic               rst_n,
    input  wire logic [HEADS-1:0]   heads_used,
    input  wire logic               two_slots,
    input  wire logic               x_valid,
    input  wire op_t                x_op,
    input  wire logic signed [31:0] x0[HEADS],
    input  wire logic signed [31:0] x1[HEADS],

    output logic                    job_valid,
    output logic [X_BANK_BITS-1:0]  job_bank,
    output logic                    job_half,
    output logic                    job_last_half,
    output logic                    job_exists,  // the block has tokens
    output logic signed [23:0]      job_peak[HEADS],

    input  wire logic               read,
    input  wire logic [X_BANK_BITS+4:0] read_address,  // {bank, half, pair of tokens}
    output logic [HEADS*32:0]       read0,  // {exists, x of eight heads} of the pair's even token
    output logic [HEADS*32:0]       read1
);
  localparam int unsigned ROWS = 1 << (X_BANK_BITS + 5);
  logic [HEADS*32:0] memory0[ROWS], memory1[ROWS];
  logic [HEADS*32-1:0] flat0, flat1;
  wire logic exists0 = x_op.m0 != 0;
  wire logic exists1 = two_slots && x_op.m1 != 0;
  wire logic [X_BANK_BITS+4:0] write_address = {x_op.x_bank, x_op.half, x_op.token[4:1]};
  wire logic write0 = x_valid && !x_op.token[0];
  wire logic write1 = x_valid && (two_slots || x_op.token[0]);

  always_comb begin
    for (int h = 0; h < HEADS; h++) begin
      flat0[h*32+:32] = x0[h];
      flat1[h*32+:32] = two_slots ? x1[h] : x0[h];
    end
  end
  always_ff @(posedge clk) begin
    if (write0) memory0[write_address] <= {exists0, flat0};
    if (write1) memory1[write_address] <= {two_slots ? exists1 : exists0, flat1};
    if (read) begin
      read0 <= memory0[read_address];
      read1 <= memory1[read_address];
    end
  end

  // ---- maximum: of the pass, then of the block so far -----------------------------------------------------------
  localparam logic signed [23:0] LOWEST = 24'sh80_0000;
  logic pass_valid, pass_exists, pass_first, pass_last, pass_last_half;
  logic pass_half;
  logic [X_BANK_BITS-1:0] pass_bank;
  logic signed [23:0] pass_peak[HEADS];
  logic signed [23:0] peak[2][HEADS];
  logic exists[2];

  always_ff @(posedge clk) begin
    pass_exists <= exists0 || exists1;
    pass_first <= x_op.token == 0;
    pass_last <= x_op.token == (two_slots ? 5'd30 : 5'd31);
    pass_half <= x_op.half;
    pass_last_half <= x_op.last_half;
    pass_bank <= x_op.x_bank;
    if (pass_valid) exists[pass_half] <= pass_exists || (!pass_first && exists[pass_half]);
    for (int h = 0; h < HEADS; h++) begin
      if (heads_used[h]) begin
        if (x_valid) begin
          logic signed [23:0] e0, e1;
          e0 = exists0 ? x0[h][31:8] : LOWEST;
          e1 = exists1 ? x1[h][31:8] : LOWEST;
          pass_peak[h] <= (e1 > e0) ? e1 : e0;
        end
        if (pass_valid && (pass_first || pass_peak[h] > peak[pass_half][h])) peak[pass_half][h] <= pass_peak[h];
      end
    end
    job_bank <= pass_bank;
    job_half <= pass_half;
    job_last_half <= pass_last_half;
    if (!rst_n) begin
      pass_valid <= 1'b0;
      job_valid  <= 1'b0;
    end else begin
      pass_valid <= x_valid;
      job_valid  <= pass_valid && pass_last;
    end
  end
  assign job_exists = exists[job_half];
  assign job_peak = peak[job_half];
  wire logic unused = &{1'b0, x_op};
endmodule

`default_nettype wire
