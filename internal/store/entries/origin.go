package entries

import (
	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file has the stored form of an atrium.Origin. It is short, because every entry has one.

// The first byte of submitted_by. The identifier of a key or receiver follows it, packed.
const (
	submitterKey         = 1
	submitterCommandLine = 2
	submitterImport      = 3
	submitterReceiver    = 4
)

// originColumns are the columns of an entry e that scanOrigin reads.
const originColumns = "e.rule, e.submitted_by, e.request_id"

// scanOrigin reads originColumns, starting at the given column.
func scanOrigin(r engine.Row, first int) atrium.Origin {
	return atrium.Origin{
		Rule: atrium.Rule(r.Int(first)), SubmittedBy: submitterOf(r.Bytes(first + 1)), RequestID: requestOf(r.Bytes(first + 2)),
	}
}

func ruleArg(r atrium.Rule) any {
	if r == atrium.RuleNotRecorded {
		return nil
	}
	return int64(r)
}

func submitterArg(by string) any {
	switch by {
	case atrium.ActorCommandLine:
		return []byte{submitterCommandLine}
	case atrium.ActorImport:
		return []byte{submitterImport}
	}
	if id, ok := atrium.ParseID[atrium.KeyID](by); ok {
		return append([]byte{submitterKey}, kernel.PackID(string(id[len(id.Prefix()):]))...)
	}
	if id, ok := atrium.ParseID[atrium.ReceiverID](by); ok {
		return append([]byte{submitterReceiver}, kernel.PackID(string(id[len(id.Prefix()):]))...)
	}
	return nil
}

// submitterOf returns "" for null and for a kind that only a later release knows.
func submitterOf(stored []byte) string {
	switch {
	case len(stored) == 1+kernel.IDBytes && stored[0] == submitterKey:
		return string(kernel.UnpackID[atrium.KeyID](stored[1:]))
	case len(stored) == 1+kernel.IDBytes && stored[0] == submitterReceiver:
		return string(kernel.UnpackID[atrium.ReceiverID](stored[1:]))
	case len(stored) == 1 && stored[0] == submitterCommandLine:
		return atrium.ActorCommandLine
	case len(stored) == 1 && stored[0] == submitterImport:
		return atrium.ActorImport
	}
	return ""
}

// requestArg packs the identifiers that the service generates. Others are texts of clients, of 1
// to 128 visible ASCII characters. The two differ in their first byte: see requestOf.
func requestArg(id string) any {
	if id == "" {
		return nil
	}
	if own, ok := atrium.ParseID[atrium.RequestID](id); ok {
		return kernel.IDArg(own)
	}
	return []byte(id)
}

// requestOf is the inverse of requestArg. A packed identifier begins with a number below 1,296 in
// two bytes, so its first byte is less than that of any visible character.
func requestOf(stored []byte) string {
	if len(stored) == kernel.IDBytes && stored[0] < ' ' {
		return string(kernel.UnpackID[atrium.RequestID](stored))
	}
	return string(stored)
}
