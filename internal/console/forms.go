package console

import "atrium"

// A form is what users change something with.
type form struct {
	scope     atrium.Scope // that the change needs
	operators bool         // it is for operators only
	size      int64        // maximum size, in bytes; 0 for maxForm
	page      page
}

// Maximum sizes of forms, in bytes. What a browser sends can have three times the bytes of what a user has entered.
const (
	maxForm        = 64 << 10
	maxExpressions = 512 << 10 // with the expressions of a receiver or webhook
	maxContent     = 2 << 20   // with the content of a page, and what it was before, or with a request to try
)

// forms returns the forms by pattern.
func (c *Console) forms() map[string]form {
	return map[string]form{
		prefix + "/tenants":                                      {scope: atrium.ScopeManage, operators: true, page: c.createTenant},
		of + "/tenant/{action}":                                  {scope: atrium.ScopeManage, operators: true, page: again(c.changeTenant, c.showTenant, 1)},
		of + "/accounts":                                         {scope: atrium.ScopeManageAccounts, page: again(c.createAccount, c.listAccounts, 0)},
		of + "/accounts/{account_id}":                            {scope: atrium.ScopeManageAccounts, page: again(c.renameAccount, c.showAccount, 0)},
		of + "/accounts/{account_id}/merge":                      {scope: atrium.ScopeManageAccounts, page: c.mergeAccount},
		of + "/accounts/{account_id}/split":                      {scope: atrium.ScopeManageAccounts, page: c.splitAccount},
		of + "/accounts/{account_id}/erase":                      {scope: atrium.ScopeManageAccounts, page: again(c.eraseAccount, c.erasePage, 0)},
		of + "/accounts/{account_id}/prospects":                  {scope: atrium.ScopeManageAccounts, page: again(c.createProspect, c.showAccount, 1)},
		of + "/accounts/{account_id}/unlink":                     {scope: atrium.ScopeManageAccounts, page: c.unlinkProspect},
		of + "/accounts/{account_id}/link":                       {scope: atrium.ScopeManageAccounts, page: again(c.linkProspect, c.showAccount, 1)},
		of + "/prospects/{prospect_id}":                          {scope: atrium.ScopeManageAccounts, page: c.updateProspect},
		of + "/prospects/{prospect_id}/link":                     {scope: atrium.ScopeManageAccounts, page: again(c.linkToAccount, c.showProspect, 1)},
		of + "/prospects/{prospect_id}/delete":                   {scope: atrium.ScopeManageAccounts, page: c.deleteProspect},
		of + "/activity/summaries":                               {scope: atrium.ScopeManageAccounts, page: c.changeSummaries},
		of + "/activity/{entry_id}/move":                         {scope: atrium.ScopeManageAccounts, page: again(c.moveEntry, c.showEntry, 1)},
		of + "/moves":                                            {scope: atrium.ScopeManageAccounts, page: c.createMoves},
		of + "/moves/{move_id}/undo":                             {scope: atrium.ScopeManageAccounts, page: c.undoMove},
		of + "/pages":                                            {scope: atrium.ScopeManagePages, page: again(c.createPage, c.newPage, 0)},
		of + "/pages/{page_id}/{action}":                         {scope: atrium.ScopeManagePages, page: c.changePage},
		of + "/pages/{page_id}/edit":                             {scope: atrium.ScopeManagePages, size: maxContent, page: c.savePage},
		of + "/pages/{page_id}/schedule":                         {scope: atrium.ScopeManagePages, page: again(c.schedulePage, c.showPage, 1)},
		of + "/pages/{page_id}/audiences":                        {scope: atrium.ScopeManagePages, page: again(c.createAudience, c.showPage, 1)},
		of + "/pages/{page_id}/audiences/{audience_id}/versions": {scope: atrium.ScopeManagePages, size: maxContent, page: c.createVersion},
		of + "/pages/{page_id}/audiences/{audience_id}/versions/{number}/{action}": {scope: atrium.ScopeManagePages, page: c.changeVersion},
		of + "/pages/{page_id}/audiences/{audience_id}/{action}":                   {scope: atrium.ScopeManagePages, page: c.changeAudience},
		of + "/pages/{page_id}/previews/{preview_id}/end":                          {scope: atrium.ScopeManagePages, page: c.endPreview},
		of + "/brands":                                                       {scope: atrium.ScopeManagePages, page: again(c.createBrand, c.listBrands, 0)},
		of + "/brands/{brand_id}/{action}":                                   {scope: atrium.ScopeManagePages, page: c.changeBrand},
		of + "/webhooks":                                                     {scope: atrium.ScopeManageEvents, size: maxExpressions, page: again(c.createWebhook, c.listWebhooks, 0)},
		of + "/webhooks/events":                                              {scope: atrium.ScopeManageEvents, page: c.switchEvents},
		of + "/webhooks/{webhook_id}/edit":                                   {scope: atrium.ScopeManageEvents, size: maxExpressions, page: again(c.saveWebhook, c.editWebhook, 0)},
		of + "/webhooks/{webhook_id}/{action}":                               {scope: atrium.ScopeManageEvents, page: c.changeWebhook},
		of + "/webhooks/{webhook_id}/deliveries/{event_id}/redeliver":        {scope: atrium.ScopeManageEvents, page: c.redeliver},
		of + "/webhooks/{webhook_id}/replays":                                {scope: atrium.ScopeManageEvents, page: c.createReplay},
		of + "/webhooks/{webhook_id}/replays/{replay_id}/cancel":             {scope: atrium.ScopeManageEvents, page: c.cancelReplay},
		of + "/receivers":                                                    {scope: atrium.ScopeManageReceivers, size: maxExpressions, page: again(c.createReceiver, c.listReceivers, 0)},
		of + "/receivers/{receiver_id}/edit":                                 {scope: atrium.ScopeManageReceivers, size: maxExpressions, page: again(c.saveReceiver, c.editReceiver, 0)},
		of + "/receivers/{receiver_id}/try":                                  {scope: atrium.ScopeManageReceivers, size: maxContent, page: again(c.tryReceiver, c.showReceiver, 1)},
		of + "/receivers/{receiver_id}/{action}":                             {scope: atrium.ScopeManageReceivers, page: c.changeReceiver},
		of + "/receivers/{receiver_id}/quarantine/{quarantined_id}/{action}": {scope: atrium.ScopeManageReceivers, page: c.changeQuarantined},
		of + "/keys":                       {scope: atrium.ScopeManageKeys, page: again(c.createKey, c.listKeys, 0)},
		of + "/keys/{key_id}/rotate":       {scope: atrium.ScopeManageKeys, page: c.rotateKey},
		of + "/keys/{key_id}/revoke":       {scope: atrium.ScopeManageKeys, page: c.revokeKey},
		of + "/people":                     {scope: atrium.ScopeManageUsers, page: again(c.createPerson, c.listPeople, 0)},
		of + "/people/groups":              {scope: atrium.ScopeManageUsers, page: again(c.mapGroup, c.listPeople, 1)},
		of + "/people/groups/{mapping_id}": {scope: atrium.ScopeManageUsers, page: c.unmapGroup},
		of + "/people/{user_id}/{action}":  {scope: atrium.ScopeManageUsers, page: c.changePerson},
		of + "/privacy/person":             {scope: atrium.ScopeManageErase, page: c.findPerson},
		of + "/privacy/retention":          {scope: atrium.ScopeManageErase, page: c.changeRetention},
	}
}
