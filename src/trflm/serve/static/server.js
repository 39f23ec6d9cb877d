// Requests to the service this page came from.

let token = "";

export function useToken(given) {
  token = given;
}

/** A refusal of the service, in its own words. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, body = null) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const given = body === null ? { headers } : {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, given);
  } catch {
    throw new Refused("The service does not answer. Is `trf serve` still running?", 0);
  }
  let content;
  try {
    content = await answer.json();
  } catch {
    throw new Refused(`The service answered with status ${answer.status} and nothing to read.`, answer.status);
  }
  if (!answer.ok) throw new Refused(content.error || `The service answered with status ${answer.status}.`, answer.status);
  return content;
}
