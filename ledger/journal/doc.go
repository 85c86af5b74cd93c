// Package journal keeps a ledger's frames on disk, by etcd's write-ahead log: one writer, one sync for
// each Append, readers beside it.
//
// # On disk
//
//	DIR/journal/NAME/LOCK        held by the writer; holds its process id
//	DIR/journal/NAME/LIVES       each of the last openings for writing, as package life has it
//	DIR/journal/NAME/wal/*.wal   segments of 4 MB, allocated before they are needed
//	DIR/journal/NAME/snapshots   the state after a frame, for two such frames; may be deleted
//	DIR/journal/NAME/tree        hashes of the Merkle tree over all records; may be deleted
//	DIR/journal/NAME/checkpoints what was signed of it, as notes of package checkpoint
//
// LIVES and LOCK say whether an earlier opening has ended, and whether the journal is where it was opened
// last ([Journal.Ended], [Journal.Moved]): a copy brings LIVES along, and has another LOCK. LIVES also says
// how many frames there were when the journal was closed, or a second before its writer was killed: where
// there are fewer, an older copy was put behind the two.
//
// A frame is one entry of the log: index = the frame's sequence, term = its epoch, data =
//
//	position  varint: how many frames of the same Append, and so of the same sync, stand before it
//	frame     as ledger.AppendFrame writes it
//	0xa5      the end
//
// The log chains a CRC-32C through everything it ever held, which names the place of a flipped bit; the few
// bytes between records, which say nothing, are zero, as is what is allocated behind the last one. The
// records that begin a segment are safe before it has its name. Position and end mark tell a torn write from
// damage. A write that a crash tore was never acknowledged: it is trimmed. It must be the last thing in the
// log, and either a sector of it is missing (zero, as allocated), or its end is. Anything else, in particular
// a frame of a later Append behind the gap, means that bytes which were once safe are not what they were: the
// journal is refused and the place named.
//
// # Snapshots
//
// A snapshot is made of frames that are durable, by a replica of its own beside the writer, and names the
// frame that it follows and the log's checksum there. An opening that has one reads and checks the segments
// from that frame on: those before must all be there, but what rots in them is found by whoever reads
// everything, as ledger check does, which compares the snapshots with it ([Reader.Tail]). A snapshot that
// does not fit is ignored, and everything is read.
//
// # Checkpoints
//
// [Journal.Tree] reads back beside the writer what became durable, and makes the Merkle tree of it, whose
// root others sign. It begins with the newest checkpoint that the hashes beside the log fit, so a start reads
// no more than without it; what is wrong in them is made anew from the frames. A log that is shorter than a
// checkpoint that is kept beside it, or has another root there, is [ErrOther]. [Prove] shows to anybody that
// a checkpoint covers a record.
package journal

import (
	"go.etcd.io/etcd/server/v3/storage/wal"

	"souk/ledger"
)

// segmentBytes is the size of a segment: small, so that a start reads little twice and a small market costs
// little disk; a busy hub fills one in seconds.
const segmentBytes = 4 << 20

// maxSync bounds the frames that are written by one sync, in bytes: one of the largest.
const maxSync = ledger.MaxFrame

// maxSegment bounds a segment. Whatever is written by one sync ends in the segment in which it begins; the
// last term is what the log puts around each frame.
const maxSegment = segmentBytes + maxSync + maxBatch*64

// The size is a variable of etcd's package and the same for every log of a process. An etcd server that runs
// in this process works as well with it.
func init() { wal.SegmentSizeBytes = segmentBytes }

const (
	endMark    = 0xa5
	metadataOf = "souk journal " // of any version
	metadata   = metadataOf + "1"
)
