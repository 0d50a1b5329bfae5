package frames

// Codes of a Verdict.
const (
	OK          = 0
	ErrorInNode = 1
	ErrorInUser = 2
)

// Verdict is the original's Status: whether something went well, and if not why.
type Verdict struct {
	Code    int32
	Message string
}

// Append encodes it.
func (v Verdict) Append(b []byte) []byte { return appendString(appendInt(b, 1, v.Code), 2, v.Message) }

func (v *Verdict) parse(message []byte) error {
	return readFields(message, into{1: &v.Code, 2: &v.Message})
}

// Opening asks for a session: OpenSession.
type Opening struct {
	Interval, MinPeers int32
	Adaptive           bool
	CheckinMode        string
	Weight             int32
	Contract, Method   string
}

// ParseOpening decodes it.
func ParseOpening(message []byte) (o Opening, err error) {
	err = readFields(message, into{
		1: &o.Interval, 2: &o.MinPeers, 4: &o.Adaptive, 5: &o.CheckinMode, 6: &o.Weight, 7: &o.Contract, 8: &o.Method,
	})
	return o, err
}

// AppendOpened encodes the answer to an Opening.
func AppendOpened(b []byte, v Verdict, session string) []byte {
	return appendString(appendMessage(b, 1, v.Append(nil)), 2, session)
}

// Offer hands in weights: Sync and CloseSession.
type Offer struct {
	Session string
	Seq     int32
	Weight  int32  // 0: the session's; of CloseSession: contribute nothing from here on
	Weights []byte // the name of a file, or a message for ParseWeights; part of the message
}

// ParseOffer decodes it.
func ParseOffer(message []byte) (o Offer, err error) {
	err = readFields(message, into{1: &o.Session, 2: &o.Seq, 3: &o.Weight, 5: &o.Weights})
	return o, err
}

// AppendDone encodes the answer to an Offer.
func AppendDone(b []byte, o Offer, v Verdict, interval int32, over bool) []byte {
	b = appendInt(appendString(b, 1, o.Session), 2, o.Seq)
	b = appendMessage(b, 3, v.Append(nil))
	b = appendInt(b, 4, interval)
	if over {
		b = appendInt(b, 5, 1)
	}
	return b
}

// AppendQuestion encodes a GetLoss with the name of the file that the weights lie in. Weights in the message itself are WriteWeights'.
func AppendQuestion(b []byte, o Offer, number int32, file string) []byte {
	return appendString(appendInt(appendInt(appendString(b, 1, o.Session), 2, o.Seq), 3, number), 4, file)
}

// Measured answers GetLoss: Loss.
type Measured struct {
	Verdict      Verdict
	Loss, Metric float32
	Done, Total  int32 // epochs
}

// ParseMeasured decodes it.
func ParseMeasured(message []byte) (m Measured, err error) {
	err = readFields(message, into{4: m.Verdict.parse, 5: &m.Loss, 6: &m.Metric, 7: &m.Done, 8: &m.Total})
	return m, err
}

// ParseKill decodes KillSession: why the program ends its session.
func ParseKill(message []byte) (reason Verdict, err error) {
	err = readFields(message, into{2: reason.parse})
	return reason, err
}
