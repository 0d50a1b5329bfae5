package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Version is the version of commands and snapshots that this program writes.
const Version = 1

// Bounds of encoded forms.
const (
	MaxCommandBytes  = 4 << 20
	MaxSnapshotBytes = 1 << 30
	// MaxStateBytes is what the encoded state may grow to by what SLs and operators begin. A quarter of what can be read
	// back: what must still be possible then has room.
	MaxStateBytes = MaxSnapshotBytes / 4
)

type envelope struct {
	V    int             `json:"v"`
	Type string          `json:"type"`
	Body json.RawMessage `json:"body"`
}

// decoders has one entry for every command of every version ever shipped.
var decoders = map[string]func([]byte) (Command, error){
	InitSwarm{}.Type():       decodeAs[InitSwarm],
	RecordBundle{}.Type():    decodeAs[RecordBundle],
	RegisterNode{}.Type():    decodeAs[RegisterNode],
	ForgetNode{}.Type():      decodeAs[ForgetNode],
	SetLive{}.Type():         decodeAs[SetLive],
	LeaveNode{}.Type():       decodeAs[LeaveNode],
	BanNode{}.Type():         decodeAs[BanNode],
	UnbanNode{}.Type():       decodeAs[UnbanNode],
	AdmitNode{}.Type():       decodeAs[AdmitNode],
	InviteNode{}.Type():      decodeAs[InviteNode],
	ClaimInvitation{}.Type(): decodeAs[ClaimInvitation],
	OpenSession{}.Type():     decodeAs[OpenSession],
	CloseSession{}.Type():    decodeAs[CloseSession],
	EndSession{}.Type():      decodeAs[EndSession],
	PlanRound{}.Type():       decodeAs[PlanRound],
	CancelPlan{}.Type():      decodeAs[CancelPlan],
	CommitRound{}.Type():     decodeAs[CommitRound],
	FinishContract{}.Type():  decodeAs[FinishContract],
	ResetContract{}.Type():   decodeAs[ResetContract],
	DeleteContract{}.Type():  decodeAs[DeleteContract],
	CreateContract{}.Type():  decodeAs[CreateContract],
	FailContract{}.Type():    decodeAs[FailContract],
	ExpireContract{}.Type():  decodeAs[ExpireContract],
	LoseModel{}.Type():       decodeAs[LoseModel],
	AdoptRound{}.Type():      decodeAs[AdoptRound],
	RecordFetch{}.Type():     decodeAs[RecordFetch],
	SkipRound{}.Type():       decodeAs[SkipRound],
	PauseContract{}.Type():   decodeAs[PauseContract],
	ResumeContract{}.Type():  decodeAs[ResumeContract],
	EndContract{}.Type():     decodeAs[EndContract],

	CreateTask{}.Type():       decodeAs[CreateTask],
	EditTask{}.Type():         decodeAs[EditTask],
	FinaliseTask{}.Type():     decodeAs[FinaliseTask],
	DeleteTask{}.Type():       decodeAs[DeleteTask],
	CreateTaskrunner{}.Type(): decodeAs[CreateTaskrunner],
	ResetTaskrunner{}.Type():  decodeAs[ResetTaskrunner],
	DeleteTaskrunner{}.Type(): decodeAs[DeleteTaskrunner],
	AssignTask{}.Type():       decodeAs[AssignTask],
	CancelAssignment{}.Type(): decodeAs[CancelAssignment],
	MoveAssignments{}.Type():  decodeAs[MoveAssignments],
	ApproveTask{}.Type():      decodeAs[ApproveTask],
	RefuseTask{}.Type():       decodeAs[RefuseTask],

	SetRights{}.Type(): decodeAs[SetRights],
}

func decodeAs[C Command](body []byte) (Command, error) {
	var c C
	err := strict(body, &c)
	return c, err
}

// EncodeCommand returns the canonical form of a command for the log.
func EncodeCommand(c Command) ([]byte, error) {
	if c == nil {
		return nil, fmt.Errorf("encode command: %w", ErrMalformed)
	}
	b, err := seal(c.Type(), c)
	if err != nil {
		return nil, fmt.Errorf("encode command %s: %w", c.Type(), err)
	}
	if len(b) > MaxCommandBytes {
		return nil, fmt.Errorf("encode command %s: %d bytes, at most %d: %w", c.Type(), len(b), MaxCommandBytes, ErrMalformed)
	}
	return b, nil
}

// DecodeCommand reads what EncodeCommand wrote, and nothing else: a form that is not canonical is ErrMalformed. A version,
// type or field that this program does not know is ErrVersion.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) > MaxCommandBytes {
		return nil, fmt.Errorf("decode command: %d bytes, at most %d: %w", len(b), MaxCommandBytes, ErrMalformed)
	}
	env, err := openEnvelope(b)
	if err != nil {
		return nil, fmt.Errorf("decode command: %w", err)
	}
	decode := decoders[env.Type]
	if decode == nil {
		return nil, fmt.Errorf("decode command %q: %w", clip(env.Type, 80), ErrVersion)
	}
	c, err := decode(env.Body)
	if err != nil {
		return nil, fmt.Errorf("decode command %s: %w", env.Type, err)
	}
	if again, err := EncodeCommand(c); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("decode command %s: not canonical: %w", env.Type, ErrMalformed)
	}
	return c, nil
}

const snapshotType = "snapshot"

// EncodeSnapshot returns the canonical form of a state: equal states give equal bytes.
func EncodeSnapshot(s *State) ([]byte, error) {
	b, err := seal(snapshotType, s)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	if len(b) > MaxSnapshotBytes { // it could not be read back
		return nil, fmt.Errorf("encode snapshot: %d bytes, at most %d: %w", len(b), MaxSnapshotBytes, ErrMalformed)
	}
	return b, nil
}

// DecodeSnapshot reads what EncodeSnapshot wrote and holds it to Check.
func DecodeSnapshot(b []byte) (*State, error) {
	if len(b) > MaxSnapshotBytes {
		return nil, fmt.Errorf("decode snapshot: %d bytes, at most %d: %w", len(b), MaxSnapshotBytes, ErrMalformed)
	}
	env, err := openEnvelope(b)
	if err != nil {
		return nil, fmt.Errorf("decode snapshot: %w", err)
	}
	if env.Type != snapshotType {
		return nil, fmt.Errorf("decode snapshot: type %q: %w", clip(env.Type, 80), ErrMalformed)
	}
	s := &State{}
	if err := strict(env.Body, s); err != nil {
		return nil, fmt.Errorf("decode snapshot: %w", err)
	}
	if s.Nodes == nil || s.Contracts == nil {
		return nil, fmt.Errorf("decode snapshot: without nodes or contracts: %w", ErrMalformed)
	}
	if err := s.count(&State{}); err != nil {
		return nil, fmt.Errorf("decode snapshot: %w: %w", ErrMalformed, err)
	}
	if err := Check(s); err != nil {
		return nil, fmt.Errorf("decode snapshot: %w: %w", ErrMalformed, err)
	}
	if again, err := EncodeSnapshot(s); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("decode snapshot: not canonical: %w", ErrMalformed)
	}
	return s, nil
}

func seal(kind string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{V: Version, Type: kind, Body: b})
}

// openEnvelope looks at the version before anything else: a newer form may not parse as ours.
func openEnvelope(b []byte) (envelope, error) {
	var head struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return envelope{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if head.V != Version {
		return envelope{}, fmt.Errorf("version %d: %w", head.V, ErrVersion)
	}
	var env envelope
	err := strict(b, &env)
	return env, err
}

// strict decodes exactly one JSON value. An unknown field is ErrVersion: later versions add fields.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if strings.HasPrefix(err.Error(), "json: unknown field ") { // it has no type of its own
			return fmt.Errorf("%w: %w", ErrVersion, err)
		}
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: more than one value", ErrMalformed)
	}
	return nil
}
