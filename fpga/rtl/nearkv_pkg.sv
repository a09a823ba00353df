// Sizes, status codes and the records that modules hand to each other. The numbers that drivers see are those of
// fpga/registers.json (a test compares the two).
`default_nettype none

package nearkv_pkg;

  // ---- the memory interface ----------------------------------------------------------------------------------
  localparam int unsigned BEAT_BITS = 512;
  localparam int unsigned BEAT_BYTES = BEAT_BITS / 8;
  localparam int unsigned ADDRESS_BITS = 64;
  localparam int unsigned PAGE_BYTES = 4096;  // an AXI burst must not cross one
  localparam int unsigned BEATS_BITS = 24;  // beats of one read command: 65,536 blocks of 129 beats fit

  // ---- the score contract, version 1 -------------------------------------------------------------------------
  localparam int unsigned BLOCK_TOKENS = 32;
  localparam int unsigned MAX_GROUP = 16;
  localparam int unsigned HEAD_BITS = 4;
  localparam logic [31:0] EMPTY = 32'h8000_0000;
  localparam int unsigned PRIORITY_BITS = 29;  // 16 heads of at most 2^24

  // ---- the shipped configuration -----------------------------------------------------------------------------
  localparam int unsigned LANES = 64;  // byte lanes: 64 INT8 or 128 INT4 values a cycle
  localparam int unsigned HEADS = 8;  // heads that the lanes serve at full rate; 9 to 16 take two passes
  localparam int unsigned PAIRS = HEADS / 2;  // two heads share one packed multiplier
  localparam int unsigned DEFAULT_STORE_ROWS = 65536;  // rows of HEADS log-masses: half of a KU15P's UltraRAM
  localparam int unsigned POSITION_BITS = 17;  // counts up to DEFAULT_STORE_ROWS, inclusive
  localparam int unsigned MAX_TOP_K = 2048;
  localparam int unsigned SORT_LEVELS = 11;  // log2(MAX_TOP_K)
  localparam int unsigned MIN_SORT_LEVEL = 6;  // shorter chunks would spend their time on restarts
  localparam int unsigned K_BITS = 12;
  localparam int unsigned WAYS = 4;  // rows that the selection reads, and candidates that it sorts, a cycle
  localparam int unsigned WAY_BITS = 2;
  localparam int unsigned KEY_FIFO_BEATS = 512;  // covers a memory latency of about 400 cycles
  localparam int unsigned COMMAND_FIFO_BEATS = 128;
  localparam int unsigned DEFAULT_WATCHDOG_CYCLES = 1 << 20;  // 3.5 ms at 300 MHz
  localparam int unsigned FOLD_BITS = 40;  // 2^17 addends below 2^21, with room to spare
  localparam int unsigned X_BANKS = 4;  // blocks between the first dot product and the end of the log-mass
  localparam int unsigned X_BANK_BITS = 2;

  typedef enum logic [3:0] {
    ST_OK           = 4'd0,
    ST_COMMAND_READ = 4'd1,
    ST_KEY_READ     = 4'd2,
    ST_RESULT_WRITE = 4'd3,
    ST_TIMEOUT      = 4'd4,
    ST_BITS         = 4'd5,
    ST_WIDTH        = 4'd6,
    ST_GROUP        = 4'd7,
    ST_MODE         = 4'd8,
    ST_TOP_K        = 4'd9,
    ST_BLOCKS       = 4'd10,
    ST_RUNS         = 4'd11,
    ST_ADDRESS      = 4'd12
  } status_t;

  localparam logic [31:0] INTERFACE_VERSION = 32'd1;

  // A request as the datapath needs it; `row` is log2 of a key row's bytes / 16 (0: 16 bytes ... 4: 256 bytes).
  typedef struct packed {
    status_t                  error;
    logic                     bank;    // which half of the query store holds its queries
    logic [POSITION_BITS-1:0] blocks;
    logic [K_BITS-1:0]        k;
    logic                     int4;
    logic [1:0]               width;   // log2(D / 32)
    logic [2:0]               row;
    logic [4:0]               group;
    logic                     topk;
    logic [ADDRESS_BITS-1:0]  result;
  } request_t;

  // What the datapath needs of a run of blocks; a run with an error ends the request.
  typedef struct packed {
    logic [MAX_GROUP-1:0][31:0] b;
    logic [MAX_GROUP-1:0][15:0] c;
    logic [MAX_GROUP-1:0][5:0]  r;
    logic [POSITION_BITS-1:0]   blocks;
    logic                       last;    // of its request
    status_t                    error;
  } run_t;

  // One read or write command for a master.
  typedef struct packed {
    logic [ADDRESS_BITS-1:0] address;
    logic [BEATS_BITS-1:0]   beats;
  } transfer_t;

  // One pass of a payload beat through the lanes.
  typedef struct packed {
    logic [1:0]             chunk;        // which 64 bytes of the row
    logic                   half;         // heads 0..7 or 8..15
    logic                   phase;        // rows of 16 bytes: first or second pair of tokens
    logic [1:0]             coefficient;  // entry of the coefficient store
    logic [X_BANK_BITS-1:0] x_bank;
    logic [4:0]             token;        // token in slot 0
    logic [7:0]             m0;
    logic [7:0]             m1;
    logic                   first_part;   // first beat of a row: restart the accumulators
    logic                   last_part;    // last beat of a row: the dot products are complete
    logic                   last_half;    // no further half of this block follows
  } op_t;

  // One log-mass on its way from the block unit to the total, the store and the results.
  typedef struct packed {
    logic [31:0]          value;
    logic [HEAD_BITS-1:0] head;
    logic                 last_in_half;
    logic                 last_in_block;
    logic                 bad;
  } log_mass_t;

  // A candidate for the top k; padding has exists = 0 and sorts last.
  typedef struct packed {
    logic                     exists;
    logic [PRIORITY_BITS-1:0] share;
    logic [POSITION_BITS-1:0] position;
  } candidate_t;

  // Candidates that travel together; in a sorted one, the best is element 0.
  typedef candidate_t [WAYS-1:0] tuple_t;

endpackage

`default_nettype wire
