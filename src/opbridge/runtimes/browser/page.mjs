// Loads models into onnxruntime-web in a page and runs them: it asks for requests, and posts the answers.

import { LENGTHS, framed, refused, run } from "./tensors.mjs";

const provider = location.hash.slice(1);
const ort = await import(`./ort/ort.${provider}.min.mjs`);
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";
let session = null;

fetch("alive");  // is never answered: the other end sees the page end, when this is closed

function reader(data) {
  let at = 0;
  return (size) => data.subarray(at, (at += size));
}

async function load(asked, read) {
  if (session !== null) await session.release();
  session = null;
  const model = read(asked.size);
  const externalData = asked.external.map(({ path, size }) => ({ path, data: read(size) }));
  session = await ort.InferenceSession.create(model, { executionProviders: [provider], externalData, logSeverityLevel: 4 });
  return [{ inputs: session.inputNames, outputs: session.outputNames }];
}

for (;;) {
  const read = reader(new Uint8Array(await (await fetch("next")).arrayBuffer()));
  const text = new TextDecoder();
  const asked = JSON.parse(text.decode(read(Number(text.decode(read(LENGTHS))))));
  let answer;
  try {
    answer = await (asked.feeds === undefined ? load(asked, read) : run(ort, session, asked, read));
  } catch (error) {
    answer = [refused(error)];
  }
  await fetch("answer", { method: "POST", body: new Blob(framed(...answer)) });
}
