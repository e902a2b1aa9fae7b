package console

import (
	"encoding/base64"
	"net/http"
	"strings"

	"atrium"
)

// done has the messages about changes. A page names one in its parameter done. {title} stands for the title of the page,
// and {name} for the name of a resource that is not on it; the name may be unknown.
var done = map[string]string{
	"accountcreated":  "Account {title} created.",
	"renamed":         "Account {title} changed.",
	"merged":          "Account {name} merged into this one. To undo this, split it off below.",
	"split":           "Account {title} split off.",
	"erased":          "Account erased. The server may need some minutes to delete everything.",
	"prospectcreated": "Prospect {name} created and linked to the account.",
	"prospect":        "Prospect {title} changed.",
	"prospectgone":    "Prospect {name} deleted.",
	"linked":          "Prospect linked to the account.",
	"moved":           "Entry moved to another account. To undo this, use the button below.",
	"movedall":        "Entries moved. To undo a move, use its button.",
	"undone":          "Move undone.",
	"template":        "Template for {name} saved.",
	"templategone":    "Template for {name} deleted.",
	"pagecreated":     "Page {name} created. Visitors do not see it until it is published.",
	"page":            "Page {title} changed.",
	"schedule":        "Schedule of page {title} changed.",
	"publish":         "Page {title} published.",
	"unpublish":       "Page {title} unpublished. Visitors no longer see it.",
	"archive":         "Page {title} archived. Visitors no longer see it.",
	"restore":         "Page {title} restored as a draft.",
	"pagedeleted":     "Page {title} deleted. Visitors no longer see it. To restore it, use the button.",
	"undelete":        "Page {title} restored.",
	"previewended":    "Preview ended. It no longer works.",
	"brandcreated":    "Brand {name} created.",
	"brandrenamed":    "Brand {name} renamed.",
	"branddeleted":    "Brand {name} deleted.",
	"audiencecreated": "Audience {title} created.",
	"renameaudience":  "Audience {title} renamed.",
	"archiveaudience": "Audience {title} archived.",
	"restoreaudience": "Audience {title} restored.",
	"version":         "Version {name} saved. It is not published yet.",
	"published":       "Version {name} published. Visitors see it now.",
	"publishedlater":  "Version {name} published. Visitors see it once the page is published, which it is not yet.",
	"versionarchived": "Version {name} archived.",
	"versionrestored": "Version {name} restored.",
	"revoked":         "Key {name} revoked. It stops working within seconds.",
	"mapped":          "Group {name} mapped. Members get the role when they sign in.",
	"unmapped":        "Mapping deleted. Signed-in members keep their role until they sign in again.",
	"removed":         "User {name} removed.",
	"role":            "Role of user {title} changed. The user must sign in again.",
	"userout":         "All sessions of user {title} ended.",
	"ended":           "Session ended.",
	"expired":         "Your session has ended. Sign in again.",
	"signedout":       "You are signed out.",
	"erasing":         "Erasure started. It continues in the background; this page shows when it is completed.",
	"retention":       "Retention rules set. A job deletes entries within hours.",
	"tenantcreated":   "Tenant {name} created.",
	"tenantrenamed":   "Tenant {title} renamed.",
	"deleting":        "Tenant {title} is being deleted. Its keys no longer work.",
	"eventson":        "Events enabled.",
	"eventsoff":       "Events disabled. What happens from now on is not sent.",
	"redelivered":     "Event sent again. This page shows the response when it is there.",
	"replay":          "Replay started. It continues in the background.",
	"replayended":     "Replay ended.",
	"webhooksaved":    "Webhook {title} saved.",
	"webhookdelete":   "Webhook {name} deleted.",
	"webhookdisable":  "Webhook {title} disabled. Events wait until it is enabled, as long as they are stored.",
	"webhookenable":   "Webhook {title} enabled. It continues where it was.",
	"webhooktest":     "Test event sent. The deliveries below show the response within seconds.",
	"receiversaved":   "Receiver {title} saved.",
	"receiverdelete":  "Receiver {name} deleted.",
	"receiverdisable": "Receiver {title} disabled. It refuses all requests within seconds.",
	"receiverenable":  "Receiver {title} enabled.",
	"receiverdiscard": "Deliveries in quarantine discarded. Some are left if there were many.",
	"discarded":       "Delivery in quarantine discarded.",
	"unchanged":       "There are no changes to save.",
}

// maxShownName is how many characters of a name a message has.
const maxShownName = 80

// doneCookie is the cookie with the name that the next page shows, for a minute. A name in an address would be in
// histories and logs.
const doneCookie = "-done"

// redirect shows a page after a change, with a message: a key of done, and the name in it if there is one.
func (r *request) redirect(path, message string, name ...string) error {
	if len(name) > 0 {
		r.setDone(message+"."+base64.RawURLEncoding.EncodeToString([]byte(atrium.Shorten(maxShownName, name[0]))), 60)
	}
	http.Redirect(r.w, r.http, path+"?done="+message, http.StatusSeeOther)
	return nil
}

func (r *request) setDone(value string, seconds int) {
	http.SetCookie(r.w, &http.Cookie{
		Name: r.console.cookieName(r.http) + doneCookie, Value: value, Path: "/", HttpOnly: true, Secure: r.console.overTLS(r.http), MaxAge: seconds,
		SameSite: http.SameSiteLaxMode,
	})
}

// takeDone returns the message about the change that led to the page; "" for none.
func (r *request) takeDone(title string) string {
	message := r.http.URL.Query().Get("done")
	text := done[message]
	if !strings.Contains(text, "{name}") {
		return strings.ReplaceAll(text, "{title}", atrium.Shorten(maxShownName, title))
	}
	name := ""
	if cookie, err := r.http.Cookie(r.console.cookieName(r.http) + doneCookie); err == nil {
		if of, encoded, _ := strings.Cut(cookie.Value, "."); of == message {
			decoded, _ := base64.RawURLEncoding.DecodeString(encoded) // of a browser that has changed it, a part
			name = atrium.Shorten(maxShownName, strings.ToValidUTF8(string(decoded), ""))
		}
		r.setDone("", -1)
	}
	if name != "" {
		name += " "
	}
	return strings.NewReplacer("{title}", atrium.Shorten(maxShownName, title), "{name} ", name).Replace(text)
}
