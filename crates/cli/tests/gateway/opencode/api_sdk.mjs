// The official SDK against the gateway: one turn with a permission, seen by its typed client and its stream.
import { pathToFileURL } from "node:url"
const { createOpencodeClient } = await import(
  pathToFileURL(`${process.env.MODULES}/@opencode-ai/sdk/dist/index.js`).href
)
const password = Buffer.from(`any:${process.env.OPENCODE_SERVER_PASSWORD}`).toString("base64")
const client = createOpencodeClient({
  baseUrl: process.env.URL,
  directory: process.env.DIRECTORY,
  headers: { Authorization: `Basic ${password}` },
})
const session = (await client.session.create({ body: { title: "Judge" }, throwOnError: true })).data
const { stream } = await client.event.subscribe()
const seen = (async () => {
  for await (const { type, properties } of stream) {
    if (properties.sessionID !== session.id) continue
    if (type === "session.status") console.log("status", properties.status.type)
    if (type === "permission.asked") {
      console.log(type)
      await client.postSessionIdPermissionsPermissionId({
        path: { id: session.id, permissionID: properties.id },
        body: { response: "once" },
        throwOnError: true,
      })
    }
    if (type === "permission.replied") console.log(type, properties.reply)
    if (type === "session.idle") return console.log(type)
  }
})()
const body = { messageID: "msg_1e0c7c950001junpDUYjBLrG2b", parts: [{ type: "text", text: "Hello" }] }
const prompt = () => client.session.prompt({ path: { id: session.id }, body, throwOnError: true })
const answer = (await prompt()).data
await seen
// A repeated prompt with the same id is the same prompt.
const again = (await prompt()).data
if (again.info.id !== answer.info.id) throw new Error("the prompt ran twice")
console.log("answer", answer.info.finish)
const messages = (await client.session.messages({ path: { id: session.id }, throwOnError: true })).data
if (messages[0].info.id !== body.messageID) throw new Error(`not the chosen id: ${messages[0].info.id}`)
console.log("messages", ...messages.map((message) => message.info.role))
process.exit(0)
