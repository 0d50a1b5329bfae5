package tensorboard

// What tests see of the format.
var (
	AppendRecord = appendRecord
	ReadEvents   = readEvents
)
