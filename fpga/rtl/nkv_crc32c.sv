// CRC-32C of a score block, one 64-byte beat a cycle: the contribution of a beat is a fixed XOR network that can be
// pipelined; only the 32-bit advance of the running value closes a loop. The header counts without its own CRC field:
// its 60 bytes are moved up behind four bytes of zeros, which a zero start value does not see.
`default_nettype none

module nkv_crc32c
  import nearkv_pkg::*;
(
    input  wire logic                  clk,
    input  wire logic                  rst_n,
    input  wire logic                  beat_valid,
    input  wire logic                  first,  // the beat is a header
    input  wire logic                  last,
    input  wire logic [BEAT_BITS-1:0]  beat,
    output logic                       result_valid,  // one cycle, for each last beat
    output logic                       match
);
  localparam logic [31:0] POLYNOMIAL = 32'h82f6_3b78;  // reflected
  localparam int unsigned GROUPS = 8;
  localparam int unsigned GROUP_BITS = BEAT_BITS / GROUPS;

  // Column i of the network: what input bit i (bit 0 enters first) adds to the CRC after the whole beat.
  typedef logic [BEAT_BITS-1:0][31:0] columns_t;
  function automatic columns_t columns();
    logic [31:0] state;
    state = POLYNOMIAL;  // a one that entered last, after its own step
    for (int i = BEAT_BITS - 1; i >= 0; i--) begin
      columns[i] = state;
      state = state[0] ? (state >> 1) ^ POLYNOMIAL : state >> 1;
    end
  endfunction
  localparam columns_t COLUMNS = columns();

  // Row j: which input bits the CRC's bit j depends on.
  typedef logic [31:0][BEAT_BITS-1:0] rows_t;
  function automatic rows_t rows();
    for (int j = 0; j < 32; j++) for (int i = 0; i < BEAT_BITS; i++) rows[j][i] = COLUMNS[i][j];
  endfunction
  localparam rows_t ROWS = rows();

  logic [3:1] valid, firsts, lasts;
  logic [31:0] expected1, expected2, expected3, expected;
  logic [GROUP_BITS-1:0] data[GROUPS];
  logic [GROUP_BITS-1:0] partial[32];  // row j's selected bits, the groups laid over each other
  logic [31:0] beat_part, running, advanced;

  wire logic [BEAT_BITS-1:0] message = first ? {beat[479:32], ~beat[31:0], 32'd0} : beat;

  always_comb begin
    for (int j = 0; j < 32; j++) advanced[j] = ^(running & ROWS[j][31:0]);
  end

  always_ff @(posedge clk) begin
    // 1: the message. The start value of all ones inverts the first 32 bits.
    if (beat_valid) begin
      for (int g = 0; g < GROUPS; g++) data[g] <= message[g*GROUP_BITS+:GROUP_BITS];
      expected1 <= beat[BEAT_BITS-1-:32];
    end
    // 2: what each row selects, eight groups laid over each other
    if (valid[1]) begin
      for (int j = 0; j < 32; j++) begin
        logic [GROUP_BITS-1:0] folded;
        folded = '0;
        for (int g = 0; g < GROUPS; g++) folded = folded ^ (data[g] & ROWS[j][g*GROUP_BITS+:GROUP_BITS]);
        partial[j] <= folded;
      end
      expected2 <= expected1;
    end
    // 3: their sum
    if (valid[2]) begin
      for (int j = 0; j < 32; j++) beat_part[j] <= ^partial[j];
      expected3 <= expected2;
    end
    // 4: the running value
    if (valid[3]) begin
      running <= (firsts[3] ? 32'd0 : advanced) ^ beat_part;
      if (firsts[3]) expected <= expected3;
    end
    firsts <= {firsts[2:1], first};
    lasts  <= {lasts[2:1], last};
    if (!rst_n) begin
      valid <= '0;
      result_valid <= 1'b0;
    end else begin
      valid <= {valid[2:1], beat_valid};
      result_valid <= valid[3] && lasts[3];
    end
  end
  assign match = ~running == expected;
endmodule

`default_nettype wire
