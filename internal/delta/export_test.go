package delta

// KeptUpdates is how many differences a feed keeps.
const KeptUpdates = keptUpdates

// AdvanceSessions and AdvanceParticipants copy messages with other counts.
var (
	AdvanceSessions     = advanceSessions
	AdvanceParticipants = advanceParticipants
)

// Item is an element of a decoder's list.
type Item[M any] = item[M]

// NewItem returns an element.
func NewItem[M any](msg M, counts [2]uint64) Item[M] { return item[M]{msg: msg, counts: counts} }

// Message returns what an element says.
func Message[M any](i Item[M]) M { return i.msg }
