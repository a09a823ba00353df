// Decodes a request record and names the first thing that is wrong with it (docs/kernel-interface.md, status codes).
`default_nettype none

module nkv_check
  import nearkv_pkg::*;
#(
    parameter int unsigned STORE_ROWS = DEFAULT_STORE_ROWS
) (
    input  wire logic [BEAT_BITS-1:0]    record,
    input  wire logic                    read_error,
    input  wire logic [ADDRESS_BITS-1:0] commands,
    input  wire logic [ADDRESS_BITS-1:0] keys,
    input  wire logic [ADDRESS_BITS-1:0] results,
    output request_t                     request,  // all but `bank`
    output logic [ADDRESS_BITS-1:0]      queries,  // absolute addresses
    output logic [ADDRESS_BITS-1:0]      descriptors,
    output logic [31:0]                  runs
);
  wire logic [31:0] blocks = record[28*8+:32];
  wire logic [31:0] k = record[32*8+:32];
  wire logic [7:0] bits = record[36*8+:8];
  wire logic [7:0] width32 = record[37*8+:8];
  wire logic [7:0] group = record[38*8+:8];
  wire logic [7:0] mode = record[39*8+:8];
  wire logic [ADDRESS_BITS-1:0] result_offset = record[16*8+:64];

  wire logic [31:0] limit = (group > 8'(HEADS)) ? STORE_ROWS / 2 : STORE_ROWS;
  wire logic unaligned = (record[0+:6] | record[8*8+:6] | record[16*8+:6]
                          | commands[5:0] | keys[5:0] | results[5:0]) != 0;

  assign runs = record[24*8+:32];

  always_comb begin
    if (read_error) request.error = ST_COMMAND_READ;
    else if (bits != 8'd4 && bits != 8'd8) request.error = ST_BITS;
    else if (width32 != 8'd1 && width32 != 8'd2 && width32 != 8'd4 && width32 != 8'd8) request.error = ST_WIDTH;
    else if (group == 0 || group > 8'(MAX_GROUP)) request.error = ST_GROUP;
    else if (mode > 8'd1) request.error = ST_MODE;
    else if (mode == 8'd1 && (k == 0 || k > MAX_TOP_K)) request.error = ST_TOP_K;
    else if (blocks == 0 || blocks > limit) request.error = ST_BLOCKS;
    else if (runs == 0 || runs > blocks) request.error = ST_RUNS;
    else if (unaligned || result_offset == 0) request.error = ST_ADDRESS;
    else request.error = ST_OK;

    request.bank = 1'b0;
    request.blocks = blocks[POSITION_BITS-1:0];
    request.k = k[K_BITS-1:0];
    request.int4 = bits[2];
    request.width = {width32[3] | width32[2], width32[3] | width32[1]};
    request.row = 3'(request.width) + (request.int4 ? 3'd0 : 3'd1);
    request.group = group[4:0];
    request.topk = mode[0];
    request.result = results + result_offset;
    queries = commands + record[0+:64];
    descriptors = commands + record[8*8+:64];
  end
  wire logic unused = &{1'b0, record[40*8+:24*8], keys};
endmodule

`default_nettype wire
